#include "server/coordinator/rpc/state_proto.h"

#include <string>

#include "common/protocol/proto_time.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

Job SmallJob(int64_t number, const Stage& where) {
  Job job;
  job.number = number;
  job.name = "digits";
  job.id = "digits-" + std::to_string(number);
  job.stage = where;
  job.create_time = absl::FromUnixSeconds(1000);
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_train()->set_steps(10);
  job.spec = spec.SerializeAsString();
  return job;
}

TEST(StateProtoTest, EnumeratorsHaveTheProtosNumbers) {
  EXPECT_EQ(static_cast<int>(v1::JOB_STATE_CANCELLED), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(static_cast<int>(v1::WORKER_STATE_DETACHED),
            v1::WORKER_STATE_DETACHED);
  EXPECT_EQ(static_cast<int>(v1::PHASE_CHECKPOINT), v1::PHASE_CHECKPOINT);
  EXPECT_EQ(static_cast<int>(v1::EVIDENCE_KIND_SUPERVISOR_REPORT),
            v1::EVIDENCE_KIND_SUPERVISOR_REPORT);
  EXPECT_EQ(static_cast<int>(v1::VERDICT_DECISION_FAIL_JOB),
            v1::VERDICT_DECISION_FAIL_JOB);
  EXPECT_EQ(static_cast<int>(v1::EVENT_SEVERITY_ERROR),
            v1::EVENT_SEVERITY_ERROR);
  EXPECT_EQ(static_cast<int>(v1::ROLE_PARAMETER_SERVER),
            v1::ROLE_PARAMETER_SERVER);
  EXPECT_EQ(static_cast<int>(v1::DEVICE_KIND_CUDA), v1::DEVICE_KIND_CUDA);
}

TEST(StateProtoTest, JobShowsItsVerdictAndFigures) {
  State state;
  Job& job = state.jobs.emplace(1, SmallJob(1, stage::Running{})).first->second;
  job.generation = 1;
  EXPECT_FALSE(JobProto(state, job).has_verdict());
  EXPECT_EQ(JobProto(state, job).figures().awaited_rank(), -1);
  v1::Verdict& verdict = job.verdict.emplace();
  verdict.set_worker("w1");
  verdict.add_evidence()->set_kind(v1::EVIDENCE_KIND_STREAM_BROKEN);
  verdict.mutable_process_end()->set_signal(9);
  job.figures.set_loss(2.5);
  job.figures.add_all_reduce_algorithms(v1::COLLECTIVE_ALGORITHM_RING);
  const v1::Job proto = JobProto(state, job);
  EXPECT_EQ(proto.verdict().DebugString(), verdict.DebugString());
  EXPECT_EQ(proto.figures().DebugString(), job.figures.DebugString());
}

TEST(StateProtoTest, GoodputIsAsOfTheLastEventAndAddsUp) {
  State state;
  Job job = SmallJob(1, stage::Running{});
  job.best_step = 5;
  job.goodput = {.waiting = absl::Seconds(1),
                 .starting = absl::Seconds(2),
                 .training = absl::Seconds(3),
                 .detecting = absl::Seconds(4),
                 .recovering = absl::Seconds(5),
                 .repeating = absl::Seconds(6),
                 .stopping = absl::Seconds(7),
                 .before_first_step = absl::Seconds(3)};
  job.accounted_to = MonotonicTime() + absl::Seconds(50);
  state.now = MonotonicTime() + absl::Seconds(52);
  job.incidents.emplace_back().set_number(17);
  const v1::Goodput proto = GoodputProto(state, job);
  EXPECT_EQ(proto.waiting().seconds(), 1);
  EXPECT_EQ(proto.starting().seconds(), 2);
  EXPECT_EQ(proto.detecting().seconds(), 4);
  // The open incident of a job that runs.
  EXPECT_EQ(proto.recovering().seconds(), 7);
  EXPECT_EQ(proto.training().seconds(), 3);
  EXPECT_EQ(proto.repeating().seconds(), 6);
  EXPECT_EQ(proto.stopping().seconds(), 7);
  EXPECT_EQ(proto.total().seconds(), 30);
  EXPECT_DOUBLE_EQ(proto.ratio(), 3.0 / 27);
  EXPECT_EQ(proto.incidents(), 17);
}

TEST(StateProtoTest, AJobWithoutItsMembersShowsOnlyItsLastIncident) {
  State state;
  Job job = SmallJob(1, stage::Running{});
  job.incidents.emplace_back().set_number(1);
  job.incidents.emplace_back().set_number(2);
  EXPECT_EQ(JobProto(state, job).incidents_size(), 2);
  const v1::Job proto = JobProto(state, job, MemberDetail::kNone);
  ASSERT_EQ(proto.incidents_size(), 1);
  EXPECT_EQ(proto.incidents(0).number(), 2);
}

TEST(StateProtoTest, StatusShowsQuarantinedHosts) {
  State state;
  state.quarantines.push_back({"machine-1", "node-1", absl::FromUnixSeconds(9),
                               "3 of 4 incidents within 10m", MonotonicTime()});
  const v1::Status status =
      StatusProto({.state = state, .self = CoordinatorIdentity()});
  ASSERT_EQ(status.quarantines_size(), 1);
  EXPECT_EQ(status.quarantines(0).host_key(), "machine-1");
  EXPECT_EQ(status.quarantines(0).host(), "node-1");
  EXPECT_EQ(status.quarantines(0).end_time().seconds(), 9);
  EXPECT_EQ(status.quarantines(0).reason(), "3 of 4 incidents within 10m");
}

TEST(StateProtoTest, StatusShowsWhetherDataIsEncrypted) {
  const State state;
  for (const bool is_required : {false, true}) {
    const CoordinatorIdentity self = {.requires_encryption = is_required};
    EXPECT_EQ(StatusProto({.state = state, .self = self})
                  .coordinator()
                  .requires_encryption(),
              is_required);
  }
}

TEST(StateProtoTest, JobShowsWhatEachMemberHasDone) {
  State state;
  Job& job = state.jobs.emplace(1, SmallJob(1, stage::Running{})).first->second;
  job.members.resize(2);
  v1::RankFigures figures;
  figures.set_sent_bytes(5);
  job.members[1].rank_figures = std::make_shared<v1::RankFigures>(figures);
  const v1::Job proto = JobProto(state, job);
  EXPECT_FALSE(proto.members(0).has_figures());
  EXPECT_EQ(proto.members(1).figures().sent_bytes(), 5);
}

TEST(StateProtoTest, JobShowsWhatEachMemberIsDoing) {
  State state;
  Job& job = state.jobs.emplace(1, SmallJob(1, stage::Running{})).first->second;
  job.members.resize(3);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string name = "w" + std::to_string(rank);
    job.members[static_cast<size_t>(rank)].identity.worker = name;
    Worker& worker = state.workers[name];
    worker.job_id = rank == 2 ? "another" : job.id;
    worker.phase = v1::PHASE_TRANSFER;
    worker.waiting_for_rank = rank - 1;
  }
  const v1::Job proto = JobProto(state, job);
  EXPECT_EQ(proto.members(0).phase(), v1::PHASE_TRANSFER);
  EXPECT_FALSE(proto.members(0).has_waiting_for_rank());
  EXPECT_EQ(proto.members(1).waiting_for_rank(), 0);
  EXPECT_TRUE(proto.members(1).has_waiting_for_rank());
  EXPECT_EQ(proto.members(2).phase(), v1::PHASE_UNSPECIFIED);
}

TEST(StateProtoTest, JobNamesTheMemberThatTheOthersWaitFor) {
  State state;
  Job& job = state.jobs.emplace(1, SmallJob(1, stage::Running{})).first->second;
  job.members.resize(3);
  for (int rank = 0; rank < 3; ++rank) {
    Member& member = job.members[static_cast<size_t>(rank)];
    member.identity.rank = rank;
    member.identity.worker = "w" + std::to_string(rank);
    member.identity.host = "h" + std::to_string(rank);
  }
  EXPECT_FALSE(JobProto(state, job).has_straggler());
  job.members[0].awaited_rank = job.members[1].awaited_rank = 2;
  job.members[0].awaited_ratio = job.members[1].awaited_ratio = 0.5;
  const v1::Straggler straggler = JobProto(state, job).straggler();
  EXPECT_EQ(straggler.member().rank(), 2);
  EXPECT_EQ(straggler.member().worker(), "w2");
  EXPECT_EQ(straggler.member().host(), "h2");
  EXPECT_EQ(straggler.wait_ratio(), 0.5);
}

TEST(StateProtoTest, JobShowsItsLastSampleAndCheckpoint) {
  State state;
  Job& job = state.jobs.emplace(1, SmallJob(1, stage::Running{})).first->second;
  job.generation = 1;
  EXPECT_FALSE(JobProto(state, job).has_sample());
  v1::TextSample& sample = job.sample.emplace();
  sample.set_step(5);
  sample.set_prompt("The");
  sample.set_text(" sea");
  job.figures.set_checkpoint_step(4);
  const v1::Job proto = JobProto(state, job);
  EXPECT_EQ(proto.sample().step(), 5);
  EXPECT_EQ(proto.sample().prompt(), "The");
  EXPECT_EQ(proto.sample().text(), " sea");
  EXPECT_EQ(proto.figures().checkpoint_step(), 4);
}

TEST(StateProtoTest, MembersTellOfCheckpointsThatFail) {
  State state;
  Job& job = state.jobs.emplace(1, SmallJob(1, stage::Running{})).first->second;
  job.generation = 1;
  job.members.resize(2);
  job.members[1].checkpoint_error = "after step 4: disk full";
  const v1::Job proto = JobProto(state, job);
  ASSERT_EQ(proto.members_size(), 2);
  EXPECT_EQ(proto.members(0).checkpoint_error(), "");
  EXPECT_EQ(proto.members(1).checkpoint_error(), "after step 4: disk full");
}

TEST(StateProtoTest, ABenchmarkShowsItsRowsAndNoFiguresOfTraining) {
  State state;
  Job& job =
      state.jobs.emplace(1, SmallJob(1, stage::Ended{v1::JOB_STATE_SUCCEEDED}))
          .first->second;
  v1::JobSpec spec;
  spec.mutable_bench()->add_sizes(4096);
  job.spec = spec.SerializeAsString();
  job.generation = 1;
  job.parameters_hash = 0;
  EXPECT_FALSE(JobProto(state, job).has_bench());
  job.bench.emplace().add_rows()->set_bytes(4096);
  const v1::Job proto = JobProto(state, job);
  ASSERT_EQ(proto.bench().rows_size(), 1);
  EXPECT_EQ(proto.bench().rows(0).bytes(), 4096);
  EXPECT_FALSE(proto.has_figures());
  EXPECT_EQ(proto.parameters_hash(), "");
}

TEST(StateProtoTest, MemberSitsOnTheDataAxis) {
  MemberIdentity identity;
  identity.rank = 2;
  identity.data_address = "10.0.0.1:29500";
  const v1::Member proto = MemberProto(identity, 4, 17);
  EXPECT_EQ(proto.mesh().data_size(), 4);
  EXPECT_EQ(proto.mesh().data_index(), 2);
  EXPECT_EQ(proto.mesh().tensor_size(), 1);
  EXPECT_EQ(proto.mesh().pipeline_size(), 1);
  EXPECT_EQ(proto.step(), 17);
  EXPECT_EQ(proto.data_address(), "10.0.0.1:29500");
}

TEST(StateProtoTest, WorkerShowsTheAgeOfItsLastBeat) {
  Worker worker;
  worker.name = "w0";
  worker.last_heard = MonotonicTime::FromNanos(1000);
  EXPECT_EQ(
      FromProto(WorkerProto(State(), worker, MonotonicTime::FromNanos(1500))
                    .last_beat_age()),
      absl::Nanoseconds(500));
  EXPECT_EQ(
      FromProto(WorkerProto(State(), worker, MonotonicTime::FromNanos(500))
                    .last_beat_age()),
      absl::ZeroDuration());
}

TEST(StateProtoTest, WorkerShowsTheCordonOfItsNameOrItsHost) {
  State state;
  Worker worker;
  worker.name = "w0";
  worker.host = "h1";
  EXPECT_FALSE(WorkerProto(state, worker, MonotonicTime()).has_cordon());
  Cordon& host = state.cordons["h1"];
  host.target = "h1";
  host.drains = true;
  host.reason = "kernel update";
  host.caller.name = "alice";
  Cordon& own = state.cordons["w0"];
  own.target = "w0";
  const v1::Cordon shown = WorkerProto(state, worker, MonotonicTime()).cordon();
  EXPECT_EQ(shown.target(), "h1");
  EXPECT_TRUE(shown.drain());
  EXPECT_EQ(shown.reason(), "kernel update");
  EXPECT_EQ(shown.caller(), "alice");
}

TEST(StateProtoTest, JobShowsOnlyTimesAndFiguresThatExist) {
  State state;
  Job& job = state.jobs.emplace(1, SmallJob(1, stage::Queued{})).first->second;
  v1::Job proto = JobProto(state, job);
  EXPECT_EQ(proto.id(), "digits-1");
  EXPECT_EQ(proto.spec().train().steps(), 10);
  EXPECT_EQ(proto.create_time().seconds(), 1000);
  EXPECT_FALSE(proto.has_start_time());
  EXPECT_FALSE(proto.has_end_time());
  EXPECT_FALSE(proto.has_figures());
  EXPECT_FALSE(proto.has_verdict());
  EXPECT_EQ(proto.parameters_hash(), "");
  job.generation = 2;
  job.start_time = absl::FromUnixSeconds(1001);
  job.end_time = absl::FromUnixSeconds(1002);
  job.parameters_hash = 0xabcULL;
  proto = JobProto(state, job);
  EXPECT_TRUE(proto.has_figures());
  EXPECT_EQ(proto.start_time().seconds(), 1001);
  EXPECT_EQ(proto.end_time().seconds(), 1002);
  EXPECT_EQ(proto.parameters_hash(), "0000000000000abc");
}

TEST(StateProtoTest, StatusShowsTheLastEndedJobsNewestFirst) {
  State state;
  for (int number = 1; number <= 30; ++number) {
    Job job = SmallJob(number, stage::Ended{v1::JOB_STATE_SUCCEEDED});
    job.members.resize(2);
    state.jobs.emplace(number, job);
  }
  Job queued = SmallJob(31, stage::Running{});
  queued.members.resize(2);
  state.jobs.emplace(31, queued);
  state.workers["w0"].name = "w0";
  state.journal_error = "disk full";
  const v1::Status proto =
      StatusProto({.state = state,
                   .self = {.version = "1.0", .incarnation = 7},
                   .time = absl::FromUnixSeconds(9)});
  ASSERT_EQ(proto.jobs_size(), 1 + kMaxEndedJobsShown);
  EXPECT_EQ(proto.jobs(0).id(), "digits-31");
  EXPECT_EQ(proto.jobs(0).members_size(), 2);
  EXPECT_EQ(proto.jobs(1).id(), "digits-30");
  EXPECT_EQ(proto.jobs(1).members_size(), 0);
  EXPECT_EQ(proto.jobs(kMaxEndedJobsShown).id(), "digits-11");
  EXPECT_EQ(proto.workers(0).name(), "w0");
  EXPECT_EQ(proto.coordinator().journal_error(), "disk full");
  EXPECT_EQ(proto.coordinator().other_coordinator(), "");
  EXPECT_EQ(proto.coordinator().incarnation(), 7u);
  EXPECT_EQ(proto.time().seconds(), 9);
}

TEST(StateProtoTest, StatusTellsOfAnotherCoordinator) {
  State state;
  state.incarnation = 11;
  state.other = {.worker = "w0",
                 .generation = 7,
                 .formed_by = 10,
                 .is_newer = true,
                 .is_of_former = true};
  EXPECT_EQ(StatusProto({.state = state, .self = {}})
                .coordinator()
                .other_coordinator(),
            "worker w0 is in generation 7 of coordinator 000000000000000a, "
            "which this one (000000000000000b) does not know: this journal is "
            "an older copy, so nothing is decided by it. End this "
            "coordinator; or, if 000000000000000a has ended for good, start "
            "it with --take_over");
}

TEST(StateProtoTest, StatusTellsOfADiskThatHangs) {
  State state;
  const CoordinatorIdentity self;
  const auto error_after = [&](absl::Duration wait) {
    return StatusProto({.state = state, .self = self, .journal_wait = wait})
        .coordinator()
        .journal_error();
  };
  EXPECT_EQ(error_after(absl::Seconds(1)), "");
  EXPECT_EQ(error_after(absl::Seconds(9)),
            "a decision has waited 9s for the disk to write the journal");
  state.journal_error = "disk full";
  EXPECT_EQ(error_after(absl::Seconds(9)), "disk full");
}

}  // namespace
}  // namespace ringmaster::coordinator
