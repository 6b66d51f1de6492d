#include "worker/supervisor/slot.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(SlotTest, OneSlotHasTheWorkersName) {
  EXPECT_EQ(SlotName("node-1", 0, 1), "node-1");
  EXPECT_EQ(SlotName("node-1", 0, 2), "node-1-0");
  EXPECT_EQ(SlotName("node-1", 1, 2), "node-1-1");
}

TEST(SlotTest, PortsFollowEachOther) {
  EXPECT_EQ(SlotAddress({"::", 0}, 3)->port, 0);
  EXPECT_EQ(SlotAddress({"::", 5000}, 3)->port, 5003);
  EXPECT_EQ(SlotAddress({"::", 65535}, 0)->port, 65535);
}

TEST(SlotTest, RefusesAPortThatDoesNotExist) {
  const auto address = SlotAddress({"::", 65535}, 1);
  EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(address.status().message(),
            "--data_listen: slot 1 would listen on port 65536; choose a port "
            "below 65535");
}

}  // namespace
}  // namespace ringmaster
