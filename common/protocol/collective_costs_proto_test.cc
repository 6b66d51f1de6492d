#include "common/protocol/collective_costs_proto.h"

#include "gtest/gtest.h"
#include "ringmaster/v1/coordinator_service.pb.h"

namespace ringmaster {
namespace {

TEST(CollectiveCostsProtoTest, EveryNumberComesBack) {
  const MachineCosts costs = {.shared_memory = {1e-6, 1e-10},
                              .unix_socket = {2e-6, 2e-10},
                              .tcp = {3e-6, 3e-10},
                              .remote = {4e-6, 4e-10},
                              .reduce_seconds_per_byte = 5e-11,
                              .cores = 6};
  const absl::StatusOr<MachineCosts> back = FromProto(ToProto(costs));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, costs);
}

TEST(CollectiveCostsProtoTest, APathThatIsLeftOutIsRefused) {
  v1::CollectiveCosts proto = ToProto(MachineCosts());
  proto.clear_tcp();
  EXPECT_EQ(FromProto(proto).status().message(),
            "costs.tcp.latency_seconds must be above 0 and at most 1 second, "
            "got 0");
}

}  // namespace
}  // namespace ringmaster
