// Explain translates a failed call into a message for the user.
#ifndef RINGMASTER_SERVER_CTL_CLIENT_EXPLAIN_H_
#define RINGMASTER_SERVER_CTL_CLIENT_EXPLAIN_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ringmaster::ctl {

// The status of a call to `address` as one line that says what is wrong and
// what to do about it, with the exit code that belongs to it. An answer from
// the coordinator itself (it carries a Reason) keeps its message. Keeps the
// code. UNAVAILABLE gets a reason of this side: NOT_CONNECTED if the call cannot
// have arrived, else CONNECTION_BROKE.
[[nodiscard]] absl::Status Explain(const absl::Status& status,
                                   std::string_view address,
                                   absl::Duration timeout);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_CLIENT_EXPLAIN_H_
