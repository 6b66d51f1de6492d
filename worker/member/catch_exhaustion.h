// CatchExhaustion turns the exceptions that the standard library throws when a
// host runs out of resources into an error: bad_alloc from containers,
// system_error from a thread that cannot be had.
#ifndef RINGMASTER_WORKER_MEMBER_CATCH_EXHAUSTION_H_
#define RINGMASTER_WORKER_MEMBER_CATCH_EXHAUSTION_H_

#include <new>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {

// Returns the result of `action`, a StatusOr; RESOURCE_EXHAUSTED, which names
// `rank`, if it throws one of these.
template <typename Action>
auto CatchExhaustion(int rank, const Action& action) -> decltype(action()) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "rank ", rank,
        ": this host has too little memory for the job's data and batches"));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", rank, ": ", error.what()));
  }
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_MEMBER_CATCH_EXHAUSTION_H_
