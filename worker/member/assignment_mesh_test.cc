#include "worker/member/assignment_mesh.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

TEST(AssignmentMeshTest, NcclCarriesNothingBetweenHostsThatMustBeEncrypted) {
  RankAssignment assignment;
  assignment.ranks_per_host = {2, 2};
  for (const auto integrity :
       {FrameIntegrity::kNone, FrameIntegrity::kCrc32c}) {
    assignment.integrity = integrity;
    EXPECT_TRUE(CheckNcclTraffic(assignment).ok());
  }
  assignment.integrity = FrameIntegrity::kAes256Gcm;
  const absl::Status status = CheckNcclTraffic(assignment);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("2 hosts, between which NCCL sends gradients in clear "
                        "text"));

  RankAssignment with_servers = assignment;
  with_servers.shard_placements.hosts.push_back({4, "10.0.0.9:1"});
  EXPECT_TRUE(CheckNcclTraffic(with_servers).ok());
  assignment.ranks_per_host = {4};
  EXPECT_TRUE(CheckNcclTraffic(assignment).ok());
}

}  // namespace
}  // namespace ringmaster
