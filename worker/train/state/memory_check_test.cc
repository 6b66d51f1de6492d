#include "worker/train/state/memory_check.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(CheckMemoryTest, SaysWhatNeedsHowMuchAndWhatThereIs) {
  const std::vector<MemoryNeed> needs = {{"parameters", 3'000'000},
                                         {"activations", 1'500'000}};
  EXPECT_TRUE(CheckMemory(needs, 1, 4'500'000).ok());
  EXPECT_TRUE(CheckMemory(needs, 2, 9'000'000).ok());
  const absl::Status status = CheckMemory(needs, 2, 8'900'000);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the model does not fit in memory: a rank needs 4.5 MB (parameters "
            "3.0 MB, activations 1.5 MB), and 2 ranks share 8.9 MB on this "
            "host; take a smaller model, micro_batch or number of workers a "
            "host");
}

TEST(CheckMemoryTest, AnUnknownLimitIsNeverTooSmall) {
  EXPECT_TRUE(CheckMemory({{"parameters", int64_t{1} << 60}}, 1, -1).ok());
}

}  // namespace
}  // namespace ringmaster
