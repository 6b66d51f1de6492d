// Tests that a journal without the records that are needed no more gives the same
// state, and how small it is.
#include "server/coordinator/core/state/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/core.h"
#include "server/coordinator/core/state/formed.h"
#include "server/coordinator/core/testing/action_text.h"
#include "server/coordinator/core/testing/retained.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

JobCreatedRecord Created(int64_t number) {
  JobCreatedRecord record;
  record.number = number;
  record.id = absl::StrCat("j-", number);
  record.name = "j";
  record.max_workers = 4;
  record.total_steps = 1'000'000;
  record.time = absl::FromUnixSeconds(number);
  return record;
}

// A generation of workers w0 to w3, all of which have been in the job since generation 1.
GenerationFormedRecord Formed(int64_t generation, int64_t resume_step,
                              int64_t job = 1, uint64_t formed_by = 1) {
  GenerationFormedRecord record;
  record.generation = generation;
  record.job_id = absl::StrCat("j-", job);
  record.resume_step = resume_step;
  record.formed_by = formed_by;
  record.time = absl::FromUnixSeconds(1000 + generation);
  for (int rank = 0; rank < 4; ++rank) {
    MemberIdentity& member = record.members.emplace_back();
    member.rank = rank;
    member.worker = absl::StrCat("w", rank);
    member.incarnation = 7;
    record.since.push_back(1);
  }
  return record;
}

GenerationFormedRecord RolledBack(int64_t generation) {
  GenerationFormedRecord record = Formed(generation, 0);
  record.is_rollback = true;
  return record;
}

VerdictReachedRecord Lost(int rank, int64_t generation, int64_t step,
                          int64_t job = 1) {
  VerdictReachedRecord record;
  record.job_id = absl::StrCat("j-", job);
  record.verdict.set_worker(absl::StrCat("w", rank));
  record.verdict.set_rank(rank);
  record.verdict.set_generation(generation);
  record.verdict.set_step(step);
  record.verdict.set_decision(v1::VERDICT_DECISION_REFORM);
  record.verdict.add_evidence()->set_kind(v1::EVIDENCE_KIND_STREAM_BROKEN);
  return record;
}

JobEndedRecord Ended(int64_t job) {
  JobEndedRecord record;
  record.job_id = absl::StrCat("j-", job);
  record.state = v1::JOB_STATE_SUCCEEDED;
  record.figures.set_step(90);
  record.time = absl::FromUnixSeconds(2000 + job);
  return record;
}

HostQuarantinedRecord Quarantined(int64_t from, int64_t to) {
  HostQuarantinedRecord record;
  record.job_id = "j-1";
  record.host_key = record.host = "h";
  record.time = absl::FromUnixSeconds(from);
  record.end_time = absl::FromUnixSeconds(to);
  return record;
}

// All that recovery takes from the journal of a job that has not ended.
std::string StateText(const std::vector<JournalRecord>& records) {
  const absl::StatusOr<CoordinatorCore> core =
      CoordinatorCore::Recover(Config(), records);
  if (!core.ok()) return core.status().ToString();
  std::string text = ToText(core->state());
  for (const auto& [number, job] : core->state().jobs) {
    if (IsEnded(job.state())) continue;
    absl::StrAppend(&text, job.id, " best=", job.best_step,
                    " rollbacks=", job.setbacks.rollbacks, " from ",
                    job.setbacks.rollback_step,
                    " counted_since=", job.counted_since,
                    " first=", job.first_generation, " stay=", job.stay_began,
                    " place=", job.place.after, " absent=");
    for (const AbsentMember& absent : job.absence.members) {
      absl::StrAppend(&text, absent.member.identity.worker, "@",
                      absent.generation, " ");
    }
    for (const Member& member : job.members) {
      absl::StrAppend(&text, member.identity.worker, " since ", member.since,
                      member.is_lost ? " lost" : "", "; ");
    }
  }
  for (const FormedRange& range : core->state().formed) {
    absl::StrAppend(&text, "\n", range.first, " to ", range.last, " by ",
                    range.formed_by);
  }
  absl::StrAppend(&text, "\nnext after ", core->state().last_generation, ", j-",
                  core->state().last_job_number);
  return text;
}

std::vector<int64_t> GenerationsOf(const std::vector<JournalRecord>& records) {
  std::vector<int64_t> generations;
  for (const JournalRecord& record : records) {
    if (const auto* formed = std::get_if<GenerationFormedRecord>(&record))
      generations.push_back(formed->generation);
  }
  return generations;
}

TEST(RetentionTest, ARunningJobKeepsItsFirstLastAndRollbackGenerations) {
  const std::vector<JournalRecord> records = {
      Created(1),     Formed(1, 0),   Lost(3, 1, 10), Formed(2, 10),
      Lost(2, 2, 20), Formed(3, 20),  Lost(1, 3, 30), Lost(0, 3, 30),
      RolledBack(4),  Lost(1, 4, 7),  Formed(5, 7),   Lost(1, 5, 9),
      Formed(6, 9),   Lost(2, 6, 40), Formed(7, 40)};
  const std::vector<JournalRecord> kept = Retained(records, 100);
  EXPECT_THAT(GenerationsOf(kept), ElementsAre(1, 3, 4, 7));
  EXPECT_EQ(StateText(kept), StateText(records));
}

TEST(RetentionTest, GenerationsWithoutAStepStayWithThoseThatWereLostInThem) {
  const std::vector<JournalRecord> records = {
      Created(1),     Formed(1, 0),  Lost(3, 1, 40), Formed(2, 40),
      Lost(2, 2, 50), Formed(3, 50), Lost(1, 3, 50), Formed(4, 50),
      Lost(0, 4, 50), Formed(5, 50)};
  EXPECT_THAT(GenerationsOf(Retained(records, 100)), ElementsAre(1, 3, 4, 5));
  // But without end they do not.
  std::vector<JournalRecord> many = records;
  for (int64_t generation = 6; generation < 100; ++generation)
    many.push_back(Formed(generation, 50));
  EXPECT_THAT(GenerationsOf(Retained(many, 100)), SizeIs(17));
}

TEST(RetentionTest, NumbersOfEachCoordinatorStayKnown) {
  std::vector<JournalRecord> records = {Created(1)};
  for (int64_t generation = 1; generation <= 12; ++generation) {
    records.push_back(Formed(generation, generation, 1,
                             /*formed_by=*/1 + (generation - 1) / 4));
  }
  const std::vector<JournalRecord> kept = Retained(records, 100);
  EXPECT_THAT(GenerationsOf(kept), ElementsAre(1, 4, 5, 8, 9, 12));
  EXPECT_EQ(StateText(kept), StateText(records));
}

TEST(RetentionTest, EveryBeginningGoesOnAsIfNothingWasDropped) {
  const std::vector<JournalRecord> records = {
      Created(1),      Formed(1, 0),     Lost(3, 1, 10),  Formed(2, 10),
      Created(2),      Lost(2, 2, 20),   Formed(3, 20),   Lost(0, 3, 30),
      RolledBack(4),   Lost(1, 4, 7),    Formed(5, 7),    Lost(1, 5, 40),
      RolledBack(6),   RolledBack(7),    Formed(8, 3),    Ended(1),
      Formed(9, 0, 2), Lost(0, 9, 5, 2), Formed(10, 5, 2)};
  for (size_t begin = 0; begin <= records.size(); ++begin) {
    std::vector<JournalRecord> kept =
        Retained({records.begin(), records.begin() + begin}, 100);
    for (size_t end = begin; end <= records.size(); ++end) {
      if (end > begin) kept.push_back(records[end - 1]);
      const std::vector<JournalRecord> all(records.begin(),
                                           records.begin() + end);
      ASSERT_EQ(StateText(kept), StateText(all)) << begin << " to " << end;
    }
  }
}

TEST(RetentionTest, TheAuditKeepsItsLastEntriesWhateverBecomesOfTheJobs) {
  std::vector<JournalRecord> records;
  for (size_t i = 0; i < kMaxAudited + 5; ++i) {
    records.push_back(
        AuditedRecord{.action = "submit", .object = absl::StrCat("j-", i)});
  }
  records.push_back(Created(1));
  records.push_back(Ended(1));
  const std::vector<JournalRecord> kept = Retained(records, 0);
  ASSERT_GE(kept.size(), kMaxAudited);
  EXPECT_EQ(std::get<AuditedRecord>(kept.front()).object, "j-5");
  const absl::StatusOr<CoordinatorCore> core =
      CoordinatorCore::Recover(Config(), records);
  ASSERT_TRUE(core.ok());
  EXPECT_EQ(core->state().audit.size(), kMaxAudited);
  EXPECT_EQ(core->state().audit.front().object, "j-5");
}

TEST(RetentionTest, AJobOfManyGenerationsTakesLittle) {
  std::vector<JournalRecord> records = {Created(1)};
  for (int64_t generation = 1; generation <= 10'000; ++generation) {
    records.push_back(Formed(generation, generation));
    records.push_back(Lost(1, generation, generation));
  }
  EXPECT_LT(Retained(records, 100).size(), 8u);
}

TEST(RetentionTest, AnEndedJobKeepsTheMembersOfItsEndAndNoVerdict) {
  const std::vector<JournalRecord> records = {
      Created(1), Formed(1, 0), Lost(3, 1, 10), Formed(2, 10), Ended(1)};
  const std::vector<JournalRecord> kept = Retained(records, 100);
  ASSERT_THAT(kept, SizeIs(4));
  EXPECT_THAT(std::get<GenerationFormedRecord>(kept[1]).members, SizeIs(1));
  EXPECT_EQ(std::get<GenerationFormedRecord>(kept[2]).members,
            std::get<GenerationFormedRecord>(records[3]).members);
  EXPECT_EQ(GenerationsOf(Retained(kept, 100)), GenerationsOf(kept));
}

TEST(RetentionTest, AQuarantineStaysUntilItIsOver) {
  std::vector<JournalRecord> records = {Created(1), Quarantined(10, 60),
                                        Formed(1, 0)};
  EXPECT_THAT(Retained(records, 100), SizeIs(2));
  records[1] = Quarantined(10, 5000);
  EXPECT_THAT(Retained(records, 100), SizeIs(3));
}

CordonedRecord Cordoned(std::string target, bool is_lifted) {
  CordonedRecord record;
  record.target = std::move(target);
  record.is_lifted = is_lifted;
  record.time = absl::FromUnixSeconds(1);
  return record;
}

TEST(RetentionTest, TheLastCordonOfANameStaysUntilItIsLifted) {
  const std::vector<JournalRecord> records = {
      Cordoned("h1", false), Cordoned("h2", false), Cordoned("h1", false),
      Cordoned("h2", true), Cordoned("h3", true)};
  const std::vector<JournalRecord> kept = Retained(records, 100);
  ASSERT_THAT(kept, SizeIs(1));
  EXPECT_EQ(std::get<CordonedRecord>(kept[0]).target, "h1");
}

TEST(RetentionTest, TheLastQueuesStay) {
  QueuesChangedRecord first{.file = {}, .used = {{"default", 1}}};
  QueuesChangedRecord last{.file = {}, .used = {{"default", 2}}};
  const std::vector<JournalRecord> kept =
      Retained({first, Cordoned("h1", false), last}, 100);
  ASSERT_THAT(kept, SizeIs(2));
  EXPECT_EQ(std::get<QueuesChangedRecord>(kept[1]).used.at("default"), 2);
}

TEST(RetentionTest, TheLastChangeOfEachPropertyStays) {
  const auto changed = [](std::optional<int> priority,
                          std::optional<bool> is_suspended) {
    return JobChangedRecord{
        {.priority = priority, .is_suspended = is_suspended},
        "j-1",
        "",
        absl::FromUnixSeconds(1)};
  };
  const std::vector<JournalRecord> kept =
      Retained({Created(1), changed(1, std::nullopt), changed(2, std::nullopt),
                changed(std::nullopt, true), changed(std::nullopt, false)},
               100);
  ASSERT_THAT(kept, SizeIs(3));
  EXPECT_EQ(std::get<JobChangedRecord>(kept[1]).priority, 2);
  EXPECT_EQ(std::get<JobChangedRecord>(kept[2]).is_suspended, false);
}

TEST(RetentionTest, ALaterChangeOfOtherPropertiesDropsNone) {
  const auto changed = [](JobChange change) {
    return JobChangedRecord{std::move(change), "j-1", "",
                            absl::FromUnixSeconds(1)};
  };
  const std::vector<JournalRecord> kept = Retained(
      {Created(1), changed({.min_workers = 1, .max_workers = 2}),
       changed({.min_workers = 2, .max_workers = 4}), changed({.queue = "a"}),
       changed({.queue = "b"}), changed({.priority = 3})},
      100);
  ASSERT_THAT(kept, SizeIs(4));
  EXPECT_EQ(std::get<JobChangedRecord>(kept[1]).max_workers, 4);
  EXPECT_EQ(std::get<JobChangedRecord>(kept[2]).queue, "b");
}

TEST(RetentionTest, WhenAJobTookItsPlaceAndWhenItBeganAgainStayKnown) {
  const auto changed = [](std::optional<int> priority, int64_t place_after) {
    return JobChangedRecord{
        {.priority = priority, .is_suspended = !priority.has_value()},
        "j-1",
        "",
        absl::FromUnixSeconds(1),
        {},
        place_after};
  };
  std::vector<JournalRecord> records = {
      Created(1), Formed(1, 0), Formed(2, 0), changed(std::nullopt, 0),
      JobSuspendedRecord{"j-1", 2, 0, true, absl::FromUnixSeconds(1)}};
  // Priority 0, which it had, after another one.
  records.push_back(changed(5, 2));
  records.push_back(changed(0, 4));
  records.push_back(changed(std::nullopt, 0));
  for (int64_t generation = 5; generation < 40; ++generation) {
    records.push_back(Formed(generation, generation));
  }
  const std::vector<JournalRecord> kept = Retained(records, 100);
  EXPECT_LT(kept.size(), records.size());
  EXPECT_EQ(StateText(kept), StateText(records));
  EXPECT_THAT(StateText(kept), HasSubstr("stay=5 place=4"));
}

TEST(RetentionTest, OnceAJobHasEndedOnlyASuspensionOfItsLastMembersStays) {
  const auto suspended = [](int64_t generation) {
    return JobSuspendedRecord{"j-1", generation, 10, true,
                              absl::FromUnixSeconds(1)};
  };
  const std::vector<JournalRecord> records = {
      Created(1), Formed(1, 0), suspended(1), Formed(2, 10), suspended(2)};
  EXPECT_THAT(Retained(records, 100), SizeIs(records.size()));
  std::vector<JournalRecord> ended = records;
  ended.push_back(Ended(1));
  EXPECT_THAT(Retained(ended, 100), SizeIs(ended.size() - 1));
}

TEST(RetentionTest, AFillerChangesNothingWhereverItStands) {
  const std::vector<JournalRecord> records = {Created(1), Formed(1, 0),
                                              Lost(3, 1, 10), Formed(2, 10)};
  for (size_t at = 0; at <= records.size(); ++at) {
    std::vector<JournalRecord> filled = records;
    filled.insert(filled.begin() + at, Filler());
    absl::StatusOr<CoordinatorCore> core =
        CoordinatorCore::Recover(Config(), filled);
    ASSERT_TRUE(core.ok()) << core.status();
    (void)core->Step(Event(Tick{}, absl::FromUnixSeconds(9000)),
                     MonotonicTime::FromNanos(1));
    EXPECT_TRUE(core->state().quarantines.empty());
    EXPECT_EQ(Retained(filled, 100).size(), Retained(records, 100).size());
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
