// The command line of simulate. Pure.
#ifndef RINGMASTER_TESTS_SIMULATOR_FLAGS_H_
#define RINGMASTER_TESTS_SIMULATOR_FLAGS_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "tests/simulator/bug.h"
#include "tests/simulator/shape.h"

namespace ringmaster::simulator {

struct Flags {
  uint64_t first = 1;
  uint64_t last = 1000;
  int jobs = 1;
  Bug bug = Bug::kNone;
  std::string bug_name = "none";
  Holders holders = Holders::kRanks;
  bool has_liar = false;
  bool has_many_jobs = false;
  bool is_verbose = false;
  bool goes_on = false;
};

//   INVALID_ARGUMENT  names the first argument that makes no sense, and says
//                     what is expected
[[nodiscard]] absl::StatusOr<Flags> ParseFlags(
    std::span<const char* const> arguments);

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_FLAGS_H_
