#include "server/coordinator/core/state/limit_reached.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {

absl::Status LimitReached(int64_t limit, std::string_view what,
                          std::string_view flag) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the coordinator has ", limit, " ", std::string(what), ", as many as --",
      std::string(flag), " allows; try again later"));
}

}  // namespace ringmaster::coordinator
