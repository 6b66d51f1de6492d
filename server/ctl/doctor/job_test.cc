#include "server/ctl/doctor/job.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

TEST(DoctorJobTest, AFindingForEachPart) {
  const auto findings = JobPartFindings(std::string(
      R"([{"part":"data","found":"9 samples","error":"","exit_code":0},
          {"part":"memory","found":"","error":"too large","exit_code":138},
          {"part":"new","found":"","error":"odd","exit_code":2}])"));
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0], Good("job's data", "9 samples"));
  EXPECT_EQ(findings[1].level, Level::kFailure);
  EXPECT_EQ(findings[1].what, "too large");
  EXPECT_EQ(findings[1].code, ExitCode::kRetryElsewhere);
  EXPECT_THAT(findings[1].remedy, HasSubstr("micro_batch"));
  EXPECT_EQ(findings[2].remedy, "correct the job file");
}

TEST(DoctorJobTest, NoAnswerIsAFailure) {
  for (const auto& answer : {absl::StatusOr<std::string>("nonsense"),
                             absl::StatusOr<std::string>(R"([{"part":1}])"),
                             absl::StatusOr<std::string>(absl::UnavailableError(
                                 "it was ended by signal 9"))}) {
    const auto findings = JobPartFindings(answer);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].level, Level::kFailure);
    EXPECT_THAT(findings[0].what, HasSubstr("not known: "));
  }
}

v1::Status PoolOf(int workers, int servers) {
  v1::Status status;
  for (int i = 0; i < workers + servers; ++i) {
    v1::Worker& worker = *status.add_workers();
    worker.set_name("w");
    worker.set_state(v1::WORKER_STATE_IDLE);
    worker.set_role(i < workers ? v1::ROLE_WORKER : v1::ROLE_PARAMETER_SERVER);
    worker.set_data_address("10.0.0.3:4000");
  }
  return status;
}

TEST(DoctorJobTest, ComparesThePoolWithTheJob) {
  v1::JobSpec spec;
  spec.mutable_workers()->set_min(2);
  spec.mutable_workers()->set_max(4);
  EXPECT_EQ(
      PoolFinding(PoolOf(3, 0), spec),
      Good("job's workers", "the pool has 3 workers; the job takes 2 to 4"));
  EXPECT_EQ(PoolFinding(PoolOf(1, 0), spec).level, Level::kWarning);
  spec.mutable_workers()->set_max(2);
  spec.mutable_train()->mutable_parameter_server()->set_servers(2);
  const Finding servers = PoolFinding(PoolOf(2, 1), spec);
  EXPECT_EQ(servers.level, Level::kWarning);
  EXPECT_EQ(servers.what,
            "the pool has 2 workers; the job takes 2, and 2 parameter servers, "
            "of which 1 are there");
}

TEST(DoctorJobTest, PeersAreThoseThatAreThere) {
  v1::Status status = PoolOf(1, 1);
  status.add_workers()->set_state(v1::WORKER_STATE_DETACHED);
  const auto peers = PeersOf(status);
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers[0].address, "10.0.0.3:4000");
}

}  // namespace
}  // namespace ringmaster::ctl
