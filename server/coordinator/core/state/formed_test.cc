#include "server/coordinator/core/state/formed.h"

#include <gtest/gtest.h>

namespace ringmaster::coordinator {
namespace {

constexpr uint64_t kEarlier = 11;
constexpr uint64_t kSelf = 12;
constexpr uint64_t kOther = 13;

// Generations 5, 6 and 8 of an earlier coordinator, and 10 of this one.
State SomeState() {
  State state;
  state.incarnation = kSelf;
  NoteFormed(state, 5, kEarlier);
  NoteFormed(state, 6, kEarlier);
  NoteFormed(state, 8, kEarlier);
  state.recovered_generation = 8;
  NoteFormed(state, 10, kSelf);
  return state;
}

TEST(FormedTest, AGenerationIsKnownByItsNumberAndItsCoordinator) {
  const State state = SomeState();
  EXPECT_EQ(StandingOf(state, 5, kEarlier), Standing::kKnown);
  EXPECT_EQ(StandingOf(state, 8, kEarlier), Standing::kKnown);
  EXPECT_EQ(StandingOf(state, 10, kSelf), Standing::kKnown);
  EXPECT_EQ(StandingOf(state, 8, kOther), Standing::kOther);
  EXPECT_EQ(StandingOf(state, 10, kEarlier), Standing::kOther);
  // The earlier one went on after this one had begun.
  EXPECT_EQ(StandingOf(state, 9, kEarlier), Standing::kOther);
  EXPECT_EQ(StandingOf(state, 11, kEarlier), Standing::kNewer);
  EXPECT_EQ(StandingOf(state, 11, kOther), Standing::kNewer);
}

TEST(FormedTest, ForgottenGenerationsAndThoseOfOlderReleasesFit) {
  State state = SomeState();
  EXPECT_EQ(StandingOf(state, 4, kOther), Standing::kKnown);
  EXPECT_EQ(StandingOf(state, 10, 0), Standing::kKnown);
  // Nobody takes a job from its members by not telling.
  EXPECT_EQ(StandingOf(state, 11, 0), Standing::kNewer);
  state.recovered_generation = 0;  // its state was lost
  EXPECT_EQ(StandingOf(state, 11, 0), Standing::kKnown);
  state.formed.front().formed_by = 0;
  EXPECT_EQ(StandingOf(state, 6, kOther), Standing::kKnown);
}

TEST(FormedTest, WhereNobodyIsKnownTheStateWasLost) {
  State state;
  EXPECT_EQ(StandingOf(state, 7, kOther), Standing::kKnown);
  NoteFormed(state, 3, 0);
  EXPECT_EQ(StandingOf(state, 7, kOther), Standing::kKnown);
}

TEST(FormedTest, ACoordinatorThatLostItsStateTakesOverJobAfterJob) {
  State state;
  state.incarnation = kSelf;
  NoteFormed(state, 6, kEarlier);  // rebuilt
  EXPECT_EQ(StandingOf(state, 7, kEarlier), Standing::kKnown);
  EXPECT_EQ(StandingOf(state, 7, kOther), Standing::kNewer);
  NoteFormed(state, 8, kSelf);
  EXPECT_EQ(StandingOf(state, 7, kEarlier), Standing::kKnown);
  EXPECT_EQ(StandingOf(state, 8, kEarlier), Standing::kOther);
  EXPECT_EQ(StandingOf(state, 9, kEarlier), Standing::kKnown);
}

TEST(FormedTest, AJournalIsOutdatedIfItsFormerWentOn) {
  State state = SomeState();
  EXPECT_FALSE(IsOutdated(state));
  state.other = {.worker = "a",
                 .generation = 11,
                 .formed_by = kEarlier,
                 .is_newer = true,
                 .is_of_former = true};
  // It has formed one itself.
  EXPECT_FALSE(IsOutdated(state));
  state.formed.pop_back();
  EXPECT_TRUE(IsOutdated(state));
  state.other->is_newer = false;
  EXPECT_FALSE(IsOutdated(state));
}

TEST(FormedTest, AWorkerOfAnUnrelatedClusterSaysNothingOfTheJournal) {
  State state = SomeState();
  state.formed.pop_back();
  state.other = {
      .worker = "a", .generation = 50, .formed_by = kOther, .is_newer = true};
  EXPECT_FALSE(IsOutdated(state));
  EXPECT_FALSE(IsCopy(*state.other));
  state.other->known_job_id = "j-1";
  EXPECT_TRUE(IsCopy(*state.other));
  // As long as it has not ended here, and no member of it has attached.
  EXPECT_FALSE(IsOutdated(state));
  Job job;
  job.id = "j-1";
  job.number = 1;
  state.jobs.emplace(1, job);
  EXPECT_TRUE(IsOutdated(state));
  state.other->is_outweighed = true;
  EXPECT_FALSE(IsOutdated(state));
  state.other->is_outweighed = false;
  state.jobs.at(1).stage = stage::Ended{v1::JOB_STATE_SUCCEEDED};
  EXPECT_FALSE(IsOutdated(state));
}

}  // namespace
}  // namespace ringmaster::coordinator
