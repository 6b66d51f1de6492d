#include "server/coordinator/core/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

Job JobWithPlans(const std::vector<uint64_t>& plans) {
  Job job;
  for (const uint64_t plan : plans) {
    Member member;
    member.identity.rank = static_cast<int>(job.members.size());
    member.identity.worker = "w" + std::to_string(member.identity.rank);
    member.prepared =
        PreparedAnswer{plan, 7, "same; plan=" + std::to_string(plan)};
    job.members.push_back(member);
  }
  return job;
}

TEST(VerdictTest, WordsOnlyInShowsWhatDiffers) {
  EXPECT_EQ(WordsOnlyIn("a=1 b=2, c=3", "a=1; b=4 c=3"), "b=2");
  EXPECT_EQ(WordsOnlyIn("a=1 b=2", "c=3"), "a=1 b=2");
  EXPECT_EQ(WordsOnlyIn("a=1", "a=1 b=2"), "a=1");
  EXPECT_EQ(WordsOnlyIn("", ""), "");
}

TEST(VerdictTest, AgreementNeedsEveryMemberThatIsLeft) {
  Job job = JobWithPlans({1, 1, 2});
  EXPECT_EQ(PreparedAgreement(job), Agreement::kDifferent);
  job.members[2].is_lost = true;
  EXPECT_EQ(PreparedAgreement(job), Agreement::kEqual);
  job.members[1].prepared.reset();
  EXPECT_EQ(PreparedAgreement(job), Agreement::kIncomplete);
  EXPECT_EQ(PreparedAgreement(Job()), Agreement::kIncomplete);
}

TEST(VerdictTest, MinorityIsBlamed) {
  const Verdict verdict =
      VerdictOnPrepared(JobWithPlans({2, 1, 1, 1}), absl::UnixEpoch());
  EXPECT_EQ(verdict.worker, "w0");
  EXPECT_EQ(verdict.exit_code, 3);
  EXPECT_THAT(verdict.summary, HasSubstr("plan=2 against plan=1 (1 against 3 "
                                         "of 4 ranks)"));
}

TEST(VerdictTest, WithoutMajorityTheHigherRankIsBlamed) {
  const Verdict verdict =
      VerdictOnPrepared(JobWithPlans({2, 1, 2, 1}), absl::UnixEpoch());
  EXPECT_EQ(verdict.worker, "w1");
}

}  // namespace
}  // namespace ringmaster::coordinator
