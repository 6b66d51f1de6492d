#include "server/coordinator/core/account/verdict.h"

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
v1::Verdict VerdictOn(
    const std::string& worker, v1::EvidenceKind kind,
    v1::VerdictDecision decision = v1::VERDICT_DECISION_REFORM) {
  v1::Verdict verdict;
  verdict.set_worker(worker);
  verdict.set_summary("what became of " + worker);
  verdict.set_decision(decision);
  AddEvidence(EvidenceOf(kind, "coordinator", "seen"), verdict);
  return verdict;
}

TEST(VerdictTest, WhoLeavesOrJoinsIsWantedIfTheJobGoesOn) {
  EXPECT_TRUE(IsWanted(VerdictOn("w0", v1::EVIDENCE_KIND_LEFT)));
  EXPECT_TRUE(IsWanted(VerdictOn("", v1::EVIDENCE_KIND_JOINED)));
  EXPECT_FALSE(IsWanted(VerdictOn("w0", v1::EVIDENCE_KIND_STREAM_BROKEN)));
  EXPECT_FALSE(IsWanted(v1::Verdict()));
  const v1::Verdict last =
      VerdictOn("w0", v1::EVIDENCE_KIND_LEFT, v1::VERDICT_DECISION_FAIL_JOB);
  EXPECT_TRUE(IsPolite(last));
  EXPECT_FALSE(IsWanted(last));
}

TEST(VerdictTest, TheFirstCulpritStays) {
  v1::Verdict verdict = VerdictOn("w0", v1::EVIDENCE_KIND_STREAM_BROKEN);
  AddVerdict(VerdictOn("w1", v1::EVIDENCE_KIND_LEASE_EXPIRED), verdict);
  EXPECT_EQ(verdict.worker(), "w0");
  ASSERT_THAT(verdict.evidence(), SizeIs(2));
  EXPECT_EQ(verdict.evidence(1).kind(), v1::EVIDENCE_KIND_LEASE_EXPIRED);
  EXPECT_EQ(verdict.evidence(1).detail(), "what became of w1");
  // It is no news when the same member is blamed again.
  AddVerdict(VerdictOn("w0", v1::EVIDENCE_KIND_HALT_UNANSWERED), verdict);
  EXPECT_THAT(verdict.evidence(), SizeIs(2));
}

TEST(VerdictTest, WhereNobodyWasBlamedTheLaterOneIs) {
  v1::Verdict verdict = VerdictOn("", v1::EVIDENCE_KIND_PEER_REPORT);
  AddVerdict(VerdictOn("w1", v1::EVIDENCE_KIND_LEASE_EXPIRED), verdict);
  EXPECT_EQ(verdict.worker(), "w1");
  ASSERT_THAT(verdict.evidence(), SizeIs(2));
  EXPECT_EQ(verdict.evidence(1).kind(), v1::EVIDENCE_KIND_PEER_REPORT);
}

TEST(VerdictTest, WhatFailsAJobStaysTheReason) {
  v1::Verdict verdict =
      VerdictOn("", v1::EVIDENCE_KIND_MISMATCH, v1::VERDICT_DECISION_FAIL_JOB);
  AddVerdict(VerdictOn("w1", v1::EVIDENCE_KIND_LEASE_EXPIRED,
                       v1::VERDICT_DECISION_FAIL_JOB),
             verdict);
  EXPECT_EQ(verdict.worker(), "");
  EXPECT_THAT(verdict.evidence(), SizeIs(2));
  EXPECT_EQ(verdict.decision(), v1::VERDICT_DECISION_FAIL_JOB);
}

TEST(VerdictTest, EvidenceIsBounded) {
  v1::Verdict verdict = VerdictOn("w0", v1::EVIDENCE_KIND_STREAM_BROKEN);
  for (size_t i = 1; i < 2 * kMaxEvidence; ++i) {
    AddVerdict(
        VerdictOn("w" + std::to_string(i), v1::EVIDENCE_KIND_LEASE_EXPIRED),
        verdict);
  }
  EXPECT_THAT(verdict.evidence(), SizeIs(kMaxEvidence));
  EXPECT_EQ(verdict.evidence_count(), 2 * kMaxEvidence);
}

TEST(VerdictTest, AHaltOfThousandsStaysSmall) {
  constexpr int kMembers = 4096;
  Job job;
  for (int rank = 0; rank < kMembers; ++rank) {
    Member& member = job.members.emplace_back();
    member.identity.rank = rank;
    member.identity.worker = "w" + std::to_string(rank);
    job.suspicions.reports.push_back({.observer = member.identity.worker,
                                      .observer_rank = rank,
                                      .peer_rank = rank == 0 ? 1 : 0,
                                      .detail = std::string(5000, 'x')});
  }
  const Member& lost = job.members.front();
  Worker worker;
  const v1::Verdict on_member = VerdictOnMember(
      job, lost, worker, "was lost",
      EvidenceOf(v1::EVIDENCE_KIND_LEASE_EXPIRED, "coordinator", "silent"),
      absl::UnixEpoch());
  EXPECT_EQ(on_member.evidence_count(), kMembers);
  EXPECT_THAT(on_member.evidence(), SizeIs(kMaxEvidence));
  EXPECT_LT(on_member.ByteSizeLong(), 20'000u);
  const v1::Verdict on_link =
      VerdictOnLink(job, job.suspicions.reports[1], absl::UnixEpoch());
  EXPECT_EQ(on_link.evidence_count(), kMembers);
  EXPECT_LT(on_link.ByteSizeLong(), 30'000u);
}

TEST(VerdictTest, WordsOnlyInShowsWhatDiffers) {
  EXPECT_EQ(WordsOnlyIn("a=1 b=2, c=3", "a=1; b=4 c=3"), "b=2");
  EXPECT_EQ(WordsOnlyIn("a=1 b=2", "c=3"), "a=1 b=2");
  EXPECT_EQ(WordsOnlyIn("a=1", "a=1 b=2"), "a=1");
  EXPECT_EQ(WordsOnlyIn("", ""), "");
}

v1::DataIdentity DataOf(
    const std::vector<std::pair<int64_t, uint64_t>>& sizes_and_hashes) {
  v1::DataIdentity data;
  for (const auto& [size_bytes, hash] : sizes_and_hashes) {
    v1::DataPart& part = *data.add_parts();
    part.set_first_file("/data/" + std::to_string(data.parts_size()));
    part.set_files(1);
    part.set_size_bytes(size_bytes);
    part.set_hash(hash);
  }
  return data;
}

std::string DataDifference(const v1::DataIdentity& mine,
                           const v1::DataIdentity& theirs) {
  return DifferenceText({1, 7, "data=7", mine}, {1, 8, "data=8", theirs}, "w0");
}

TEST(VerdictTest, OtherDataNameTheFirstFileAndTheSizes) {
  const v1::DataIdentity data = DataOf({{10, 1}, {20, 2}, {30, 3}});
  EXPECT_EQ(DataDifference(data, DataOf({{10, 1}, {25, 4}, {35, 5}})),
            "the data differs from that of w0: /data/2, 20 bytes (60 bytes in "
            "3 files) against /data/2, 25 bytes (70 bytes in 3 files)");
  EXPECT_EQ(DataDifference(data, DataOf({{10, 1}, {20, 4}, {30, 3}})),
            "the data differs from that of w0: /data/2, 20 bytes, hash "
            "0000000000000002 (60 bytes in 3 files) against /data/2, 20 bytes, "
            "hash 0000000000000004 (60 bytes in 3 files)");
  EXPECT_EQ(DataDifference(DataOf({{10, 1}}), data),
            "the data differs from that of w0: no such file (10 bytes in 1 "
            "file) against /data/2, 20 bytes (60 bytes in 3 files)");
  v1::DataIdentity many = data;
  many.mutable_parts(2)->set_files(5);
  EXPECT_THAT(DataDifference(many, data),
              HasSubstr("/data/3 and the next 4 files, 30 bytes, hash"));
}

// As from release 0.1, and where the tokenizer differs.
TEST(VerdictTest, DataWithoutDifferentFilesAreToldByTheirSummary) {
  const v1::DataIdentity data = DataOf({{10, 1}});
  for (const v1::DataIdentity& other : {v1::DataIdentity(), data}) {
    EXPECT_EQ(DataDifference(data, other),
              "the data differs from that of w0: data=7 against data=8");
  }
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
  const v1::Verdict verdict =
      VerdictOnPrepared(JobWithPlans({2, 1, 1, 1}), absl::UnixEpoch());
  EXPECT_EQ(verdict.worker(), "w0");
  EXPECT_EQ(verdict.exit_code(), 3);
  EXPECT_THAT(verdict.summary(), HasSubstr("plan=2 against plan=1 (1 against 3 "
                                           "of 4 ranks)"));
}

TEST(VerdictTest, WithoutMajorityTheHigherRankIsBlamed) {
  const v1::Verdict verdict =
      VerdictOnPrepared(JobWithPlans({2, 1, 2, 1}), absl::UnixEpoch());
  EXPECT_EQ(verdict.worker(), "w1");
}

}  // namespace
}  // namespace ringmaster::coordinator
