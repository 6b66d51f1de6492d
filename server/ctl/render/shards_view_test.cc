#include "server/ctl/render/shards_view.h"

#include <string>

#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

v1::Job JobWith(v1::Consistency consistency) {
  v1::Job job;
  v1::ParameterServerSpec& spec =
      *job.mutable_spec()->mutable_train()->mutable_parameter_server();
  spec.set_consistency(consistency);
  spec.set_staleness(2);
  return job;
}

TEST(ShardsViewTest, ShowsTheStalenessOfAllServersTogether) {
  v1::Job job = JobWith(v1::CONSISTENCY_SSP);
  EXPECT_EQ(StalenessLine(job), "");
  job.add_members();  // a worker
  v1::RankFigures& first = *job.add_members()->mutable_figures();
  first.add_staleness(40);
  first.add_staleness(30);
  v1::RankFigures& second = *job.add_members()->mutable_figures();
  second.add_staleness(21);
  second.add_staleness(0);
  second.add_staleness(9);
  EXPECT_EQ(StalenessLine(job), "staleness 0: 61%, 1: 30%, 2: 9% (bound 2)");
}

TEST(ShardsViewTest, AnAsynchronousJobHasNoBound) {
  v1::Job job = JobWith(v1::CONSISTENCY_ASYNC);
  v1::RankFigures& figures = *job.add_members()->mutable_figures();
  for (int ahead = 0; ahead < 16; ++ahead)
    figures.add_staleness(ahead == 3 || ahead == 15 ? 1 : 0);
  EXPECT_EQ(StalenessLine(job),
            "staleness 3: 50%, 15 and more: 50% (no bound)");
}

TEST(ShardsViewTest, NothingIsSaidBeforeTheFirstAnswer) {
  v1::Job job = JobWith(v1::CONSISTENCY_SSP);
  job.add_members()->mutable_figures()->add_staleness(0);
  EXPECT_EQ(StalenessLine(job), "");
}

TEST(ShardsViewTest, ShowsWhatAMemberDoesAndWhomItWaitsFor) {
  v1::Member member;
  EXPECT_EQ(PhaseCell(member), "-");
  member.set_phase(v1::PHASE_CONNECT);
  EXPECT_EQ(PhaseCell(member), "CONNECT");
  member.set_waiting_for_rank(0);
  EXPECT_EQ(PhaseCell(member), "CONNECT, waits for rank 0");
}

}  // namespace
}  // namespace ringmaster::ctl
