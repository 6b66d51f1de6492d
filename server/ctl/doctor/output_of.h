// OutputOf runs another program to its end.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_OUTPUT_OF_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_OUTPUT_OF_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ringmaster::ctl {

// Starts `program`, a path, without a shell, which our images do not have;
// gives it `input`, and returns what it wrote to its standard output. It ends
// with this thread at the latest, so a probe's process bounds it. UNAVAILABLE
// says why it was not started, or how it ended if not with 0. On the thread
// that started nothing else.
[[nodiscard]] absl::StatusOr<std::string> OutputOf(
    const std::string& program, const std::vector<std::string>& arguments,
    std::string_view input);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_OUTPUT_OF_H_
