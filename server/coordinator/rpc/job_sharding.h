// How a job spreads its parameters, and which values of its spec the core
// keeps. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SHARDING_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SHARDING_H_

#include <string>

#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

// Returns how the job of `spec`, which is valid, spreads its parameters.
[[nodiscard]] Sharding ShardingOf(const v1::JobSpec& spec);

// Returns a warning if the loss of a member would cost the job of `spec`, which
// is valid, more than necessary; empty otherwise.
[[nodiscard]] std::string WarningOf(const v1::JobSpec& spec);

// Returns the core's terms of `spec`, which ValidateAndDefault returned.
[[nodiscard]] JobTerms TermsOf(const v1::JobSpec& spec);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SHARDING_H_
