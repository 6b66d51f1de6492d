#include "worker/device/device.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(OpenDeviceTest, OpensTheCpuWithHeapMemory) {
  absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice("cpu");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->kind(), DeviceKind::kCpu);
  EXPECT_EQ((*device)->name().rfind("cpu (", 0), 0u) << (*device)->name();
  EXPECT_EQ((*device)->allocator().name(), "heap");
  EXPECT_TRUE((*device)->allocator().Allocate(16).ok());
}

TEST(OpenDeviceTest, UnknownDeviceIsRefusedWithTheKnownOnes) {
  const absl::Status status = OpenDevice("tpu").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "there is no device \"tpu\"; this build knows cpu");
}

}  // namespace
}  // namespace ringmaster
