#include "server/ctl/doctor/coordinator.h"

#include <grpcpp/security/credentials.h>

#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/client/testing/fake_coordinator.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

CoordinatorFacts GoodFacts() {
  CoordinatorFacts facts = {.status = absl::OkStatus(),
                            .address = "head:29400",
                            .is_encrypted = true,
                            .version = "ringmaster 1",
                            .journal_error = {},
                            .pool = {},
                            .round_trip = absl::Microseconds(300),
                            .clock_offset = -absl::Seconds(3)};
  facts.pool.add_workers();
  return facts;
}

TEST(CoordinatorTest, OneThatAnswers) {
  const auto findings = CoordinatorFindings(GoodFacts(), "ringmaster 1");
  EXPECT_EQ(
      findings,
      (std::vector{
          Good("coordinator", "answers at head:29400, by TLS, has 1 worker"),
          Good("coordinator's version", "ringmaster 1"),
          Good("round trip", "300us"),
          Good("clock",
               "the coordinator's is 3.0s behind (clocks need not "
               "agree)")}));
}

TEST(CoordinatorTest, AnotherReleaseASlowWayAndABrokenJournalAreWarnings) {
  CoordinatorFacts facts = GoodFacts();
  facts.round_trip = absl::Milliseconds(400);
  facts.journal_error = "disk full";
  const auto findings = CoordinatorFindings(facts, "ringmaster 2");
  ASSERT_EQ(findings.size(), 5);
  EXPECT_EQ(findings[1].level, Level::kWarning);
  EXPECT_THAT(findings[1].what, HasSubstr("ringctl is ringmaster 2"));
  EXPECT_EQ(findings[2].level, Level::kWarning);
  EXPECT_THAT(findings[2].remedy, HasSubstr("--failure_budget"));
  EXPECT_EQ(findings[3].level, Level::kWarning);
  EXPECT_EQ(findings[3].what, "disk full");
}

TEST(CoordinatorTest, TellsWhatAnEncryptedDataPlaneRefuses) {
  CoordinatorFacts facts = GoodFacts();
  facts.pool.mutable_coordinator()->set_requires_encryption(true);
  const auto findings = CoordinatorFindings(facts, "ringmaster 1");
  ASSERT_EQ(findings.size(), 5);
  EXPECT_EQ(findings[3].level, Level::kOk);
  EXPECT_EQ(findings[3].check, "data encryption");
  EXPECT_THAT(findings[3].what, HasSubstr("NCCL does not encrypt"));
}

TEST(CoordinatorTest, TheWorkerWhoseCertificateExpiresFirstIsNamed) {
  CoordinatorFacts facts = GoodFacts();
  for (const auto& [name, seconds] :
       {std::pair("w1", 1'800'000'000), std::pair("w2", 1'700'000'000)}) {
    v1::Worker& worker = *facts.pool.add_workers();
    worker.set_name(name);
    worker.mutable_certificate_expire_time()->set_seconds(seconds);
  }
  const auto findings = CoordinatorFindings(facts, "ringmaster 1");
  ASSERT_EQ(findings.size(), 5);
  EXPECT_EQ(findings[3].level, Level::kWarning);
  EXPECT_EQ(findings[3].what,
            "that of w2 expires on 2023-11-14, the first of its pool");
}

TEST(CoordinatorTest, AnotherCoordinatorOnACopyOfTheJournalIsAWarning) {
  CoordinatorFacts facts = GoodFacts();
  facts.other_coordinator = "worker a is in generation 7";
  const auto findings = CoordinatorFindings(facts, "ringmaster 1");
  ASSERT_EQ(findings.size(), 5);
  EXPECT_EQ(findings[3].level, Level::kWarning);
  EXPECT_EQ(findings[3].what, "worker a is in generation 7");
}

TEST(CoordinatorTest, SilenceIsAFailureWithItsOwnCode) {
  CoordinatorFacts facts;
  facts.status = absl::UnavailableError("no coordinator listens at x");
  const auto findings = CoordinatorFindings(facts, "ringmaster 1");
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].level, Level::kFailure);
  EXPECT_EQ(findings[0].code, ExitCode::kRetryElsewhere);
  EXPECT_EQ(findings[0].what, "no coordinator listens at x");
}

TEST(CoordinatorTest, IsAskedForWhatItKnows) {
  FakeCoordinator coordinator;
  v1::Status status;
  status.mutable_coordinator()->set_version("ringmaster 9");
  status.add_workers();
  *status.mutable_time() = ToProto(absl::Now() + absl::Hours(1));
  coordinator.SetStatus(status);
  Client client({.address = coordinator.address(),
                 .credentials = grpc::InsecureChannelCredentials(),
                 .timeout = absl::Seconds(20)});
  const CoordinatorFacts facts =
      GatherCoordinatorFacts(client, false, Clock::Real());
  ASSERT_TRUE(facts.status.ok()) << facts.status;
  EXPECT_EQ(facts.version, "ringmaster 9");
  EXPECT_EQ(facts.pool.workers_size(), 1);
  EXPECT_GT(facts.round_trip, absl::ZeroDuration());
  EXPECT_GT(facts.clock_offset, absl::Minutes(59));
  EXPECT_LT(facts.clock_offset, absl::Minutes(61));
}

}  // namespace
}  // namespace ringmaster::ctl
