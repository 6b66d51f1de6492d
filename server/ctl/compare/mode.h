// Mode: a way to combine the workers' gradients, as named in `ringctl compare
// --modes`.
//
// "ring", "hierarchical", "gather_broadcast", "halving_doubling", "direct" and
// "exchange" are all-reduces; "auto" is the one that the cost model chooses;
// "ps:2" has two parameter servers, "ps:colocated" has the workers hold the
// parameters. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_MODE_H_
#define RINGMASTER_SERVER_CTL_COMPARE_MODE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ringmaster {

namespace v1 {
class TrainProgram;
}  // namespace v1

namespace ctl {

struct Mode {
  enum class Kind { kAllReduce, kServers, kColocated };
  std::string name;  // as above
  Kind kind = Kind::kAllReduce;
  int servers = 0;  // processes of their own; kServers only

  [[nodiscard]] bool is_parameter_server() const {
    return kind != Kind::kAllReduce;
  }
};

inline constexpr int kMaxServers = 64;

// INVALID_ARGUMENT lists the valid names.
[[nodiscard]] absl::StatusOr<Mode> ParseMode(std::string_view name);

// "ring,ps:1": at least one, none twice.
//   INVALID_ARGUMENT  names the flag --modes
[[nodiscard]] absl::StatusOr<std::vector<Mode>> ParseModes(
    std::string_view text);

// Makes `program` train in this mode; its other settings for collectives stay.
void ApplyMode(const Mode& mode, v1::TrainProgram& program);

}  // namespace ctl
}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_CTL_COMPARE_MODE_H_
