#include "common/plan/arena.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {

std::string_view ArenaRoleName(ArenaRole role) {
  switch (role) {
    case ArenaRole::kParameters:
      return "parameters";
    case ArenaRole::kMaster:
      return "master";
    case ArenaRole::kGradients:
      return "gradients";
    case ArenaRole::kFirstMoment:
      return "first_moment";
    case ArenaRole::kSecondMoment:
      return "second_moment";
    case ArenaRole::kBuffers:
      return "buffers";
  }
  return "unknown";
}

absl::StatusOr<Arena> Arena::Create(ArenaRole role, DType dtype,
                                    int64_t num_elems, Allocator& allocator) {
  const std::string_view role_name = ArenaRoleName(role);
  const absl::string_view role_text(role_name.data(), role_name.size());
  if (num_elems < 0 ||
      num_elems > std::numeric_limits<int64_t>::max() / SizeOf(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "arena ", role_text, ": cannot have ", num_elems, " elements"));
  }
  absl::StatusOr<Allocation> memory =
      allocator.Allocate(num_elems * SizeOf(dtype));
  if (!memory.ok()) {
    return absl::Status(memory.status().code(),
                        absl::StrCat("arena ", role_text, " of ", num_elems,
                                     " elements: ", memory.status().message()));
  }
  return Arena(role, dtype, num_elems, *std::move(memory));
}

Arena::Arena(ArenaRole role, DType dtype, int64_t num_elems, Allocation memory)
    : role_(role),
      dtype_(dtype),
      num_elems_(num_elems),
      memory_(std::move(memory)) {}

}  // namespace ringmaster
