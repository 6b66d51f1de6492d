#include "common/plan/collective_costs.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(CollectiveCostsTest, TheDefaultsCanBe) {
  EXPECT_TRUE(CheckCosts(MachineCosts()).ok());
}

TEST(CollectiveCostsTest, NumbersThatNoMachineHasAreNamed) {
  struct Case {
    const char* field;
    std::function<void(MachineCosts&)> spoil;
  };
  const std::vector<Case> cases = {
      {"costs.shared_memory.latency_seconds",
       [](MachineCosts& c) { c.shared_memory.latency = -1e-6; }},
      {"costs.unix.seconds_per_byte",
       [](MachineCosts& c) { c.unix_socket.seconds_per_byte = 0; }},
      {"costs.tcp.latency_seconds",
       [](MachineCosts& c) { c.tcp.latency = std::nan(""); }},
      {"costs.remote.seconds_per_byte",
       [](MachineCosts& c) {
         c.remote.seconds_per_byte = std::numeric_limits<double>::infinity();
       }},
      {"costs.reduce_seconds_per_byte",
       [](MachineCosts& c) { c.reduce_seconds_per_byte = 2; }},
      {"costs.cores", [](MachineCosts& c) { c.cores = 0; }},
      {"costs.cores", [](MachineCosts& c) { c.cores = 1 << 30; }}};
  for (const Case& test : cases) {
    MachineCosts costs;
    test.spoil(costs);
    const absl::Status status = CheckCosts(costs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StartsWith(status.message(), test.field)) << status;
  }
}

}  // namespace
}  // namespace ringmaster
