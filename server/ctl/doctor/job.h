// The findings of `ringctl doctor JOB_FILE`: a job's needs against what this
// host and the coordinator's pool have.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_JOB_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_JOB_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/ctl/doctor/finding.h"
#include "server/ctl/doctor/peers.h"

namespace ringmaster::ctl {

// Has the program `worker`, which knows models and data, prepare the parts of
// `spec`, as one of `slots` ranks of this host; returns its answer. As slow as
// the data is to read.
[[nodiscard]] absl::StatusOr<std::string> AskWorker(const std::string& worker,
                                                    const v1::JobSpec& spec,
                                                    int slots, bool is_cuda);

// A finding for each part of that answer. Pure.
[[nodiscard]] std::vector<Finding> JobPartFindings(
    const absl::StatusOr<std::string>& answer);

// Whether the pool has the workers and parameter servers that the job takes.
// Pure.
[[nodiscard]] Finding PoolFinding(const v1::Status& status,
                                  const v1::JobSpec& spec);

// The workers and parameter servers of the pool, to connect to. Pure.
[[nodiscard]] std::vector<PeerFacts> PeersOf(const v1::Status& status);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_JOB_H_
