#include "server/coordinator/core/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

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

// A verdict on `worker`, or on nobody if that is empty.
Verdict VerdictOn(const std::string& worker, EvidenceKind kind,
                  VerdictDecision decision = VerdictDecision::kReform) {
  Verdict verdict;
  verdict.worker = worker;
  verdict.summary = "what became of " + worker;
  verdict.decision = decision;
  verdict.evidence.push_back({kind, "coordinator", "seen"});
  return verdict;
}

TEST(VerdictTest, WhoLeavesOrJoinsIsWantedIfTheJobGoesOn) {
  EXPECT_TRUE(IsWanted(VerdictOn("w0", EvidenceKind::kLeft)));
  EXPECT_TRUE(IsWanted(VerdictOn("", EvidenceKind::kJoined)));
  EXPECT_FALSE(IsWanted(VerdictOn("w0", EvidenceKind::kStreamBroken)));
  EXPECT_FALSE(IsWanted(Verdict()));
  const Verdict last =
      VerdictOn("w0", EvidenceKind::kLeft, VerdictDecision::kFailJob);
  EXPECT_TRUE(IsPolite(last));
  EXPECT_FALSE(IsWanted(last));
}

TEST(VerdictTest, TheFirstCulpritStays) {
  Verdict verdict = VerdictOn("w0", EvidenceKind::kStreamBroken);
  AddVerdict(VerdictOn("w1", EvidenceKind::kLeaseExpired), verdict);
  EXPECT_EQ(verdict.worker, "w0");
  ASSERT_THAT(verdict.evidence, SizeIs(2));
  EXPECT_EQ(verdict.evidence[1].kind, EvidenceKind::kLeaseExpired);
  EXPECT_EQ(verdict.evidence[1].detail, "what became of w1");
  // Said of the same one again, it is no news.
  AddVerdict(VerdictOn("w0", EvidenceKind::kHaltUnanswered), verdict);
  EXPECT_THAT(verdict.evidence, SizeIs(2));
}

TEST(VerdictTest, WhereNobodyWasBlamedTheLaterOneIs) {
  Verdict verdict = VerdictOn("", EvidenceKind::kPeerReport);
  AddVerdict(VerdictOn("w1", EvidenceKind::kLeaseExpired), verdict);
  EXPECT_EQ(verdict.worker, "w1");
  ASSERT_THAT(verdict.evidence, SizeIs(2));
  EXPECT_EQ(verdict.evidence[1].kind, EvidenceKind::kPeerReport);
}

TEST(VerdictTest, WhatFailsAJobStaysTheReason) {
  Verdict verdict =
      VerdictOn("", EvidenceKind::kMismatch, VerdictDecision::kFailJob);
  AddVerdict(
      VerdictOn("w1", EvidenceKind::kLeaseExpired, VerdictDecision::kFailJob),
      verdict);
  EXPECT_EQ(verdict.worker, "");
  EXPECT_THAT(verdict.evidence, SizeIs(2));
  EXPECT_EQ(verdict.decision, VerdictDecision::kFailJob);
}

TEST(VerdictTest, EvidenceIsBounded) {
  Verdict verdict = VerdictOn("w0", EvidenceKind::kStreamBroken);
  for (size_t i = 1; i < 2 * kMaxEvidence; ++i) {
    AddVerdict(VerdictOn("w" + std::to_string(i), EvidenceKind::kLeaseExpired),
               verdict);
  }
  EXPECT_THAT(verdict.evidence, SizeIs(kMaxEvidence));
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
