#include "server/ctl/doctor/shared_memory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMebibyte = int64_t{1} << 20;

SharedMemoryFacts GoodFacts() {
  return {.segment = absl::OkStatus(),
          .unix_socket = absl::OkStatus(),
          .dev_shm_bytes = 1024 * kMebibyte,
          .dev_shm_free_bytes = 1000 * kMebibyte,
          .dev_shm_error = {},
          .is_cuda_wanted = true};
}

TEST(SharedMemoryTest, AllIsWell) {
  const std::vector<Finding> findings = SharedMemoryFindings(GoodFacts());
  ASSERT_EQ(findings.size(), 3);
  for (const Finding& finding : findings)
    EXPECT_EQ(finding.level, Level::kOk) << finding.check;
  EXPECT_EQ(findings[2].what, "1000MiB free of 1.00GiB");
}

TEST(SharedMemoryTest, RanksFallBackToSlowerWays) {
  SharedMemoryFacts facts = GoodFacts();
  facts.segment = absl::UnimplementedError("the kernel cannot seal it");
  facts.unix_socket = absl::UnavailableError("no such sockets");
  const std::vector<Finding> findings = SharedMemoryFindings(facts);
  EXPECT_EQ(findings[0].level, Level::kWarning);
  EXPECT_EQ(findings[0].what, "the kernel cannot seal it");
  EXPECT_EQ(findings[1].level, Level::kWarning);
  EXPECT_THAT(findings[1].remedy, HasSubstr("AF_UNIX"));
}

TEST(SharedMemoryTest, NcclNeedsRoomInDevShm) {
  SharedMemoryFacts facts = GoodFacts();
  facts.dev_shm_free_bytes = 64 * kMebibyte;
  Finding finding = SharedMemoryFindings(facts)[2];
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.remedy, HasSubstr("--shm-size"));

  facts.dev_shm_error = "No space left on device";
  finding = SharedMemoryFindings(facts)[2];
  EXPECT_EQ(finding.level, Level::kFailure);
  EXPECT_EQ(finding.code, ExitCode::kUsage);
  EXPECT_THAT(finding.what, HasSubstr("No space left on device"));

  facts = GoodFacts();
  facts.dev_shm_bytes = -1;
  EXPECT_EQ(SharedMemoryFindings(facts)[2].level, Level::kFailure);
}

TEST(SharedMemoryTest, WithoutGpusDevShmDoesNotMatter) {
  SharedMemoryFacts facts = GoodFacts();
  facts.is_cuda_wanted = false;
  facts.dev_shm_error = "No space left on device";
  const Finding finding = SharedMemoryFindings(facts)[2];
  EXPECT_EQ(finding.level, Level::kOk);
  EXPECT_THAT(finding.what, HasSubstr("only NCCL uses it"));
}

TEST(SharedMemoryTest, ThisMachineCanBeAsked) {
  EXPECT_EQ(SharedMemoryFindings(GatherSharedMemoryFacts(false)).size(), 3);
}

}  // namespace
}  // namespace ringmaster::ctl
