#include "worker/agent/rpc/session_messages.h"

#include <memory>

#include "common/protocol/collective_costs_proto.h"
#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "common/status/reason.h"
#include "common/transport/blamed_peer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "worker/agent/rpc/assignment_payload.h"
#include "worker/bench/all_reduce_options.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::SessionResponse GoodAssignment() {
  v1::SessionResponse response;
  v1::Assignment& assignment = *response.mutable_assignment();
  assignment.set_generation(7);
  assignment.set_job_id("mlp-1");
  assignment.mutable_spec()->mutable_train()->set_steps(10);
  assignment.mutable_self()->set_rank(1);
  assignment.mutable_self()->set_local_rank(1);
  assignment.set_local_world_size(2);
  assignment.mutable_self()->mutable_mesh()->set_data_index(1);
  v1::Member& peer = *assignment.add_peers();
  peer.set_worker("w0");
  peer.set_host("node-1");
  peer.set_data_address("10.0.0.1:5");
  assignment.add_peers()->set_rank(2);
  assignment.add_ranks_per_host(2);
  assignment.add_ranks_per_host(1);
  assignment.set_world_size(3);
  assignment.set_resume_step(4);
  assignment.set_secret("secret");
  *assignment.mutable_connect_timeout() = ToProto(absl::Seconds(3));
  *assignment.mutable_collective_timeout() = ToProto(absl::Seconds(4));
  return response;
}

TEST(SessionMessagesTest, UnpacksAnAssignment) {
  const auto event = ToEvent(GoodAssignment());
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& received = std::get<agent::AssignmentReceived>(**event);
  EXPECT_EQ(received.generation, 7);
  EXPECT_EQ(received.job_id, "mlp-1");
  EXPECT_EQ(received.rank, 1);
  EXPECT_EQ(received.world_size, 3);
  EXPECT_EQ(received.resume_step, 4);
  EXPECT_EQ(received.payload->spec.train().steps(), 10);
  const RankAssignment& assignment = received.payload->assignment;
  EXPECT_EQ(assignment.generation, 7);
  EXPECT_EQ(assignment.data_index, 1);
  EXPECT_EQ(assignment.local_rank, 1);
  EXPECT_EQ(assignment.local_world_size, 2);
  ASSERT_EQ(assignment.peers.size(), 2u);
  EXPECT_EQ(assignment.peers[0].rank, 0);
  EXPECT_EQ(assignment.peers[0].address, "10.0.0.1:5");
  EXPECT_EQ(assignment.peers[1].rank, 2);
  EXPECT_EQ(assignment.ranks_per_host, (std::vector<int>{2, 1}));
  EXPECT_EQ(assignment.secret, "secret");
  EXPECT_EQ(assignment.resume_step, 4);
  EXPECT_EQ(assignment.connect_timeout, absl::Seconds(3));
  EXPECT_EQ(assignment.collective_timeout, absl::Seconds(4));
  EXPECT_EQ(assignment.state_source_rank, -1);
  EXPECT_FALSE(assignment.is_newcomer);
}

// The assignment of the second of two parameter servers, beside three workers.
v1::SessionResponse AssignmentWithShards() {
  v1::SessionResponse response = GoodAssignment();
  v1::Assignment& assignment = *response.mutable_assignment();
  assignment.mutable_self()->set_rank(4);
  assignment.mutable_self()->clear_mesh();
  assignment.clear_peers();
  for (const int rank : {3, 4}) {
    v1::Member& host = *assignment.mutable_shard_placements()->add_hosts();
    host.set_rank(rank);
    host.set_data_address("10.0.0.9:" + std::to_string(rank));
    v1::ShardPlacement& shard =
        *assignment.mutable_shard_placements()->add_shards();
    shard.set_primary_rank(rank);
    shard.set_backup_rank(7 - rank);
    shard.set_source_rank(-1);
  }
  assignment.mutable_shard_placements()->mutable_shards(1)->set_source_rank(3);
  return response;
}

TEST(SessionMessagesTest, UnpacksWhoHoldsWhichShard) {
  const auto event = ToEvent(AssignmentWithShards());
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& received = std::get<agent::AssignmentReceived>(**event);
  EXPECT_EQ(received.rank, 4);
  EXPECT_EQ(received.world_size, 3);
  const RankAssignment& assignment = received.payload->assignment;
  const ShardPlacements& placements = assignment.shard_placements;
  ASSERT_EQ(placements.hosts.size(), 2u);
  EXPECT_EQ(placements.hosts[1].rank, 4);
  EXPECT_EQ(placements.hosts[1].address, "10.0.0.9:4");
  EXPECT_EQ(placements.shards,
            (std::vector<ShardPlacement>{{3, 4, -1}, {4, 3, 3}}));

  // It reports it when it attaches again.
  WorkerIdentity identity;
  identity.role = WorkerRole::kParameterServer;
  const v1::Hello hello =
      HelloMessage(identity, {7, received.payload}, TrainProgress()).hello();
  EXPECT_EQ(hello.role(), v1::ROLE_PARAMETER_SERVER);
  EXPECT_EQ(hello.held_job().rank(), 4);
  EXPECT_EQ(hello.held_job().world_size(), 3);
  EXPECT_EQ(hello.held_job().servers(), 2);
  ASSERT_EQ(hello.held_job().placements_size(), 2);
  EXPECT_EQ(hello.held_job().placements(1).primary_rank(), 4);
  EXPECT_EQ(hello.held_job().placements(1).backup_rank(), 3);
  EXPECT_EQ(hello.held_job().placements(1).source_rank(), 3);
}

TEST(SessionMessagesTest, RefusesShardsThatMakeNoSense) {
  const auto message_of = [](auto change) {
    v1::SessionResponse response = AssignmentWithShards();
    change(*response.mutable_assignment());
    return std::string(ToEvent(response).status().message());
  };
  using A = v1::Assignment;
  EXPECT_THAT(message_of([](A& a) { a.mutable_self()->set_rank(5); }),
              HasSubstr("rank 5 of 3"));
  EXPECT_THAT(
      message_of([](A& a) {
        a.mutable_shard_placements()->mutable_shards(0)->set_primary_rank(0);
      }),
      HasSubstr("shard 0 on ranks 0, 4 and -1, which are no hosts"));
  EXPECT_THAT(
      message_of([](A& a) {
        a.mutable_shard_placements()->mutable_shards(0)->set_backup_rank(3);
      }),
      HasSubstr("shard 0 on ranks 3, 3 and -1"));
  EXPECT_THAT(message_of([](A& a) {
                a.mutable_shard_placements()->mutable_hosts(1)->set_rank(3);
              }),
              HasSubstr("rank 3 out of order as a host of shards"));
  EXPECT_THAT(message_of([](A& a) {
                a.mutable_self()->set_rank(0);
                a.mutable_shard_placements()->clear_shards();
              }),
              HasSubstr("0 shards on 2 hosts"));
}

TEST(SessionMessagesTest, PreparedTellsPlanAndData) {
  agent::SendPrepared prepared{7, 11, 22, "plan and data"};
  prepared.data.add_parts()->set_first_file("/data/a");
  const v1::Prepared message = ToMessage(prepared).prepared();
  EXPECT_EQ(message.generation(), 7);
  EXPECT_EQ(message.plan_hash(), 11u);
  EXPECT_EQ(message.data_fingerprint(), 22u);
  EXPECT_EQ(message.summary(), "plan and data");
  ASSERT_EQ(message.data().parts_size(), 1);
  EXPECT_EQ(message.data().parts(0).first_file(), "/data/a");
}

TEST(SessionMessagesTest, HaltedTellsWhatIsHeld) {
  const v1::SessionRequest request =
      ToMessage(agent::SendHalted{7, {3, 4}, {{0, 3}, {5, 4}}});
  ASSERT_EQ(request.halted().shards_size(), 2);
  EXPECT_EQ(request.halted().shards(1).shard(), 5);
  EXPECT_EQ(request.halted().shards(1).complete_step(), 4);
  const std::vector<HeldShard> held = {{5, 4}};
  EXPECT_EQ(ToEvent(7, RunOutcome(), held).shards, held);
}

TEST(SessionMessagesTest, UnpacksWhoCopiesTheStateOfWhom) {
  v1::SessionResponse response = GoodAssignment();
  v1::StateCopy& copy = *response.mutable_assignment()->mutable_state_copy();
  copy.set_source_rank(2);
  copy.set_is_newcomer(true);
  const auto event = ToEvent(response);
  ASSERT_TRUE(event.ok()) << event.status();
  const RankAssignment& assignment =
      std::get<agent::AssignmentReceived>(**event).payload->assignment;
  EXPECT_EQ(assignment.state_source_rank, 2);
  EXPECT_TRUE(assignment.is_newcomer);
}

TEST(SessionMessagesTest, FramesCarryWhatTheAssignmentSays) {
  v1::SessionResponse response = GoodAssignment();
  const auto integrity = [&response] {
    return std::get<agent::AssignmentReceived>(**ToEvent(response))
        .payload->assignment.integrity;
  };
  EXPECT_EQ(integrity(), FrameIntegrity::kNone);
  EXPECT_FALSE(std::get<agent::AssignmentReceived>(**ToEvent(response))
                   .payload->assignment.makes_no_step);
  response.mutable_assignment()->set_makes_no_step(true);
  EXPECT_TRUE(std::get<agent::AssignmentReceived>(**ToEvent(response))
                  .payload->assignment.makes_no_step);
  response.mutable_assignment()->set_frame_integrity(
      v1::FRAME_INTEGRITY_CRC32C);
  EXPECT_EQ(integrity(), FrameIntegrity::kCrc32c);
  response.mutable_assignment()->set_frame_integrity(
      v1::FRAME_INTEGRITY_AES_256_GCM);
  EXPECT_EQ(integrity(), FrameIntegrity::kAes256Gcm);
}

TEST(SessionMessagesTest, AGenerationIsEncryptedIfTheWorkerRequiresIt) {
  v1::Assignment assignment;
  assignment.set_generation(7);
  EXPECT_TRUE(CheckEncryption(assignment, false).ok());
  for (const auto plain :
       {v1::FRAME_INTEGRITY_UNSPECIFIED, v1::FRAME_INTEGRITY_CRC32C}) {
    assignment.set_frame_integrity(plain);
    const absl::Status status = CheckEncryption(assignment, true);
    EXPECT_EQ(ReasonOf(status), reason::kSessionProtocolViolation);
    EXPECT_EQ(status.message(),
              "the coordinator's generation 7 is not encrypted, and this "
              "worker runs with "
              "--data_encryption=required");
  }
  assignment.set_frame_integrity(v1::FRAME_INTEGRITY_AES_256_GCM);
  EXPECT_TRUE(CheckEncryption(assignment, true).ok());
  EXPECT_EQ(ReasonOf(CheckEncryption(assignment, false)),
            reason::kSessionProtocolViolation);
}

TEST(SessionMessagesTest, ACoordinatorWithAnotherSettingIsNamedAtItsWelcome) {
  v1::Welcome welcome;
  EXPECT_TRUE(CheckEncryption(welcome, false).ok());
  const absl::Status plain = CheckEncryption(welcome, true);
  EXPECT_EQ(ReasonOf(plain), reason::kEncryptionMismatch);
  EXPECT_EQ(plain.message(),
            "this worker runs with --data_encryption=required, this "
            "coordinator with --data_encryption=off or it is of a release that "
            "does not know the flag; start both with the same");
  welcome.set_requires_encryption(true);
  EXPECT_TRUE(CheckEncryption(welcome, true).ok());
  EXPECT_EQ(ReasonOf(CheckEncryption(welcome, false)),
            reason::kEncryptionMismatch);
}

TEST(SessionMessagesTest, UnpacksTheCostsThatAllGoBy) {
  MachineCosts costs;
  costs.tcp = {3e-6, 3e-10};
  v1::SessionResponse response = GoodAssignment();
  *response.mutable_assignment()->mutable_costs() = ToProto(costs);
  const auto event = ToEvent(response);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(
      std::get<agent::AssignmentReceived>(**event).payload->assignment.costs,
      costs);
  const auto without = ToEvent(GoodAssignment());
  EXPECT_EQ(
      std::get<agent::AssignmentReceived>(**without).payload->assignment.costs,
      MachineCosts());
}

TEST(SessionMessagesTest, RefusesAnAssignmentThatMakesNoSense) {
  const auto refusal = [](auto spoil) {
    v1::SessionResponse response = GoodAssignment();
    spoil(*response.mutable_assignment());
    const auto event = ToEvent(response);
    EXPECT_EQ(ReasonOf(event.status()), reason::kSessionProtocolViolation);
    return std::string(event.status().message());
  };
  EXPECT_THAT(refusal([](v1::Assignment& a) { a.set_generation(0); }),
              HasSubstr("generation"));
  EXPECT_THAT(refusal([](v1::Assignment& a) { a.clear_job_id(); }),
              HasSubstr("job"));
  EXPECT_THAT(refusal([](v1::Assignment& a) { a.set_world_size(1); }),
              HasSubstr("rank 1 of 1"));
  EXPECT_THAT(
      refusal([](v1::Assignment& a) { a.mutable_self()->set_rank(-1); }),
      HasSubstr("rank -1 of 3"));
  EXPECT_THAT(
      refusal([](v1::Assignment& a) { a.mutable_peers(0)->set_rank(-1); }),
      HasSubstr("peer -1 of 3"));
  EXPECT_THAT(
      refusal([](v1::Assignment& a) { a.mutable_peers(0)->set_rank(3); }),
      HasSubstr("peer 3 of 3"));
  EXPECT_THAT(refusal([](v1::Assignment& a) { a.set_ranks_per_host(0, 0); }),
              HasSubstr("a host with 0 ranks"));
  EXPECT_THAT(refusal([](v1::Assignment& a) { a.clear_ranks_per_host(); }),
              HasSubstr("hosts for 0 of 3 ranks"));
  EXPECT_THAT(refusal([](v1::Assignment& a) { a.mutable_costs(); }),
              HasSubstr("costs.shared_memory.latency_seconds must be"));
  EXPECT_THAT(refusal([](v1::Assignment& a) {
                a.set_frame_integrity(static_cast<v1::FrameIntegrity>(3));
              }),
              HasSubstr("frame integrity 3, which this worker does not know"));
  EXPECT_THAT(refusal([](v1::Assignment& a) {
                a.mutable_self()->mutable_mesh()->set_data_index(3);
              }),
              HasSubstr("data index 3 of 3"));
  EXPECT_THAT(
      refusal([](v1::Assignment& a) { a.mutable_self()->set_local_rank(2); }),
      HasSubstr("local rank 2 of 2"));
  EXPECT_THAT(refusal([](v1::Assignment& a) { a.set_resume_step(-2); }),
              HasSubstr("resumes at -2"));
  EXPECT_THAT(refusal([](v1::Assignment& a) {
                a.mutable_state_copy()->set_source_rank(3);
              }),
              HasSubstr("the state of rank 3 of 3"));
  EXPECT_THAT(refusal([](v1::Assignment& a) {
                a.mutable_state_copy()->set_source_rank(1);
                a.mutable_state_copy()->set_is_newcomer(true);
              }),
              HasSubstr("of a newcomer"));
  EXPECT_THAT(refusal([](v1::Assignment& a) {
                a.mutable_state_copy()->set_source_rank(0);
                a.set_resume_step(0);
              }),
              HasSubstr("without a step"));
}

TEST(SessionMessagesTest, ChecksTheWelcome) {
  v1::SessionResponse response;
  response.mutable_welcome()->set_protocol(1);
  EXPECT_EQ(ReasonOf(ToEvent(response).status()),
            reason::kSessionProtocolViolation);
  *response.mutable_welcome()->mutable_beat_interval() =
      ToProto(absl::Milliseconds(400));
  ASSERT_TRUE(ToEvent(response).ok());
  EXPECT_EQ(std::get<agent::SessionUp>(**ToEvent(response)).beat_interval,
            absl::Milliseconds(400));
  EXPECT_EQ(std::get<agent::SessionUp>(**ToEvent(response)).protocol, 1);
  // A coordinator of an older release says nothing of it.
  EXPECT_EQ(std::get<agent::SessionUp>(**ToEvent(response)).state_wait,
            absl::ZeroDuration());
  *response.mutable_welcome()->mutable_state_wait() = ToProto(absl::Minutes(2));
  EXPECT_EQ(std::get<agent::SessionUp>(**ToEvent(response)).state_wait,
            absl::Minutes(2));
  response.mutable_welcome()->set_protocol(3);
  ASSERT_TRUE(ToEvent(response).ok());
  EXPECT_EQ(std::get<agent::SessionUp>(**ToEvent(response)).protocol, 3);
  response.mutable_welcome()->set_protocol(4);
  EXPECT_EQ(ReasonOf(ToEvent(response).status()), reason::kProtocolMismatch);
}

TEST(SessionMessagesTest, UnpacksTheOtherMessages) {
  v1::SessionResponse response;
  response.mutable_stop()->set_generation(7);
  response.mutable_stop()->set_reason("cancelled");
  EXPECT_EQ(std::get<agent::StopReceived>(**ToEvent(response)).reason,
            "cancelled");
  response.mutable_halt()->set_generation(7);
  response.mutable_halt()->mutable_verdict()->set_summary("lost");
  EXPECT_EQ(std::get<agent::HaltReceived>(**ToEvent(response)).summary, "lost");
  v1::Verdict& verdict = *response.mutable_halt()->mutable_verdict();
  verdict.set_worker("w1");
  verdict.set_rank(1);
  verdict.set_host("h1");
  verdict.set_pid(42);
  v1::Evidence& broken = *verdict.add_evidence();
  broken.set_kind(v1::EVIDENCE_KIND_STREAM_BROKEN);
  broken.set_observer("coordinator");
  broken.set_detail("its stream broke");
  v1::Evidence& report = *verdict.add_evidence();
  report.set_kind(v1::EVIDENCE_KIND_PEER_REPORT);
  report.set_observer("w0");
  report.set_detail("connection reset");
  v1::Evidence& later = *verdict.add_evidence();
  later.set_kind(static_cast<v1::EvidenceKind>(77));
  later.set_observer("w2");
  later.set_detail("of a later version");
  EXPECT_EQ(std::get<agent::HaltReceived>(**ToEvent(response)).summary,
            "lost; culprit: worker w1, rank 1, host h1, pid 42; evidence: "
            "STREAM_BROKEN by coordinator: its stream broke; PEER_REPORT by "
            "w0: connection reset; 77 by w2: of a later version");
  verdict.clear_evidence();
  verdict.set_rank(-1);
  EXPECT_EQ(std::get<agent::HaltReceived>(**ToEvent(response)).summary,
            "lost; culprit: worker w1, host h1, pid 42");
}

TEST(SessionMessagesTest, IgnoresKindsOfMessagesThatItDoesNotKnow) {
  const auto event = ToEvent(v1::SessionResponse());
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(event->has_value());
}

TEST(SessionMessagesTest, ABeatTellsOnlyOfItsOwnGeneration) {
  TrainProgress progress;
  progress.generation = 7;
  progress.applied_step = 5;
  progress.collective_sequence = 99;
  progress.disk_bytes = 5'000'000'000;
  progress.waiting_for_rank = 1;
  v1::SessionRequest request =
      BeatMessage(agent::SendBeat{8}, agent::AgentState::kPreparing, progress);
  EXPECT_EQ(request.beat().generation(), 8);
  EXPECT_EQ(request.beat().step(), 0) << "of an earlier generation";
  EXPECT_FALSE(request.beat().has_figures());
  EXPECT_EQ(request.beat().collective_sequence(), 0);
  EXPECT_EQ(request.beat().disk_bytes(), 5'000'000'000);
  EXPECT_EQ(request.beat().waiting_for_rank(), -1);
  EXPECT_EQ(request.beat().phase(), v1::PHASE_PREPARE);
  progress.phase = TrainPhase::kEvaluate;
  request =
      BeatMessage(agent::SendBeat{7}, agent::AgentState::kRunning, progress);
  EXPECT_EQ(request.beat().step(), 5);
  EXPECT_TRUE(request.beat().has_figures());
  EXPECT_EQ(request.beat().collective_sequence(), 99);
  EXPECT_EQ(request.beat().waiting_for_rank(), 1);
  EXPECT_EQ(request.beat().phase(), v1::PHASE_EVALUATE);
  request =
      BeatMessage(agent::SendBeat{7}, agent::AgentState::kHalted, progress);
  EXPECT_EQ(request.beat().phase(), v1::PHASE_HALTED);
}

TEST(SessionMessagesTest, FiguresCarryTheEvaluationOnlyOnceThereIsOne) {
  TrainProgress progress;
  progress.figures.set_loss(2.5);
  const agent::SendFinished send{7, 10, 1, true};
  EXPECT_FALSE(
      ToMessage(send, progress).finished().figures().has_evaluation_loss());
  EXPECT_EQ(ToMessage(send, progress).finished().figures().loss(), 2.5);
  EXPECT_TRUE(ToMessage(send, progress).finished().stopped());
  progress.figures.set_evaluation_loss(1.5);
  EXPECT_EQ(ToMessage(send, progress).finished().figures().evaluation_loss(),
            1.5);
}

TEST(SessionMessagesTest, ABenchmarksFiguresGoWithItsGenerationsBeatsAndEnd) {
  AllReduceBenchFigures figures;
  figures.rows.push_back({.bytes = 4096});
  TrainProgress progress;
  progress.generation = 7;
  progress.phase = TrainPhase::kMeasure;
  const auto beat = [&](int64_t generation) {
    return BeatMessage({.generation = generation}, agent::AgentState::kRunning,
                       progress)
        .beat();
  };
  EXPECT_FALSE(beat(7).has_bench());
  progress.bench = std::make_shared<const AllReduceBenchFigures>(figures);
  ASSERT_EQ(beat(7).bench().rows_size(), 1);
  EXPECT_EQ(beat(7).bench().rows(0).bytes(), 4096);
  // The coordinator learns no pace from a benchmark: sizes differ too much.
  EXPECT_EQ(beat(7).phase(), v1::PHASE_UNSPECIFIED);
  EXPECT_FALSE(beat(8).has_bench());
  const agent::SendFinished end{7, 3, 0, false};
  EXPECT_EQ(ToMessage(end, progress).finished().bench().rows_size(), 1);
  const agent::SendFinished later{8, 3, 0, false};
  EXPECT_FALSE(ToMessage(later, progress).finished().has_bench());
}

TEST(SessionMessagesTest, ABeatCarriesTheFigures) {
  TrainProgress progress;
  progress.generation = 7;
  progress.figures.set_learning_rate(0.5);
  progress.figures.set_awaited_rank(2);
  progress.figures.mutable_phases()->mutable_forward()->set_seconds(2);
  const v1::SessionRequest request =
      BeatMessage({.generation = 7}, agent::AgentState::kRunning, progress);
  EXPECT_EQ(request.beat().figures().DebugString(),
            progress.figures.DebugString());
}

TEST(SessionMessagesTest, BeatsAndEndsCarryWhatTheRankHasDone) {
  TrainProgress progress;
  progress.generation = 7;
  progress.totals.set_steps(1);
  progress.totals.set_sent_bytes(4);
  progress.totals.mutable_duration()->set_seconds(2);
  progress.totals.add_staleness(9);
  const auto beat = [&](int64_t generation) {
    return BeatMessage({.generation = generation}, agent::AgentState::kRunning,
                       progress)
        .beat();
  };
  EXPECT_EQ(beat(7).rank().DebugString(), progress.totals.DebugString());
  EXPECT_FALSE(beat(8).has_rank()) << "of an earlier generation";
  EXPECT_EQ(ToMessage(agent::SendFinished{7, 3, 0, false}, progress)
                .finished()
                .rank()
                .sent_bytes(),
            4);
}

TEST(SessionMessagesTest, TheHelloTellsWhatCollectivesCostIfThatWasMeasured) {
  WorkerIdentity identity;
  EXPECT_FALSE(HelloMessage(identity, agent::OpenSession{}, TrainProgress())
                   .hello()
                   .has_costs());
  identity.costs = MachineCosts();
  identity.costs->cores = 3;
  EXPECT_EQ(
      *FromProto(HelloMessage(identity, agent::OpenSession{}, TrainProgress())
                     .hello()
                     .costs()),
      *identity.costs);
}

TEST(SessionMessagesTest, ANoticesTextsAreCutBetweenCharacters) {
  v1::Notice notice;
  std::string text = "a";
  for (int i = 0; i < 10000; ++i) text += "\u00e9";
  notice.set_kind(v1::NOTICE_KIND_SAMPLE);
  notice.set_message(text);
  notice.mutable_sample()->set_prompt(text);
  notice.mutable_sample()->set_text(text);
  const auto request = ToMessage(agent::SendNotice{notice});
  EXPECT_EQ(request.notice().kind(), v1::NOTICE_KIND_SAMPLE);
  EXPECT_EQ(request.notice().message().size(), 2047u);
  EXPECT_EQ(request.notice().sample().prompt().size(), 1023u);
  EXPECT_EQ(request.notice().sample().text().size(), 8191u);
  EXPECT_EQ(text.substr(0, 8191), request.notice().sample().text());
}

TEST(SessionMessagesTest, TellsTheTrainersStepWhileLeavingIsOnItsWay) {
  TrainProgress progress;
  progress.applied_step = 9;
  EXPECT_EQ(
      ToMessage(agent::SendLeaving{"x", false, 2}, progress).leaving().step(),
      9);
  EXPECT_EQ(
      ToMessage(agent::SendLeaving{"x", true, 2}, progress).leaving().step(),
      2);
}

TEST(SessionMessagesTest, TellsHowLongALeaverStays) {
  const auto leaving = [](absl::Duration patience) {
    return ToMessage(agent::SendLeaving{"x", false, 2, patience}, {}).leaving();
  };
  EXPECT_EQ(leaving(absl::Seconds(30)).patience().seconds(), 30);
  EXPECT_FALSE(leaving(absl::ZeroDuration()).has_patience());
}

TEST(SessionMessagesTest, TakesWhatConcernsALeaver) {
  v1::SessionResponse response;
  response.mutable_leave_advice()->set_text("waits");
  EXPECT_EQ(std::get<agent::LeaveAdviceReceived>(**ToEvent(response)).text,
            "waits");
}

TEST(SessionMessagesTest, EveryOutcomeHasItsEvent) {
  using Kind = RunOutcome::Kind;
  const std::pair<Kind, agent::RunEnd> kPairs[] = {
      {Kind::kFinished, agent::RunEnd::kFinished},
      {Kind::kStopped, agent::RunEnd::kStopped},
      {Kind::kDrained, agent::RunEnd::kDrained},
      {Kind::kInterrupted, agent::RunEnd::kInterrupted},
      {Kind::kPeerFailed, agent::RunEnd::kPeerFailed},
      {Kind::kFailed, agent::RunEnd::kFailed}};
  for (const auto& [kind, end] : kPairs) {
    RunOutcome outcome;
    outcome.kind = kind;
    EXPECT_EQ(ToEvent(7, outcome).end, end);
  }
  RunOutcome outcome;
  outcome.applied_step = 3;
  outcome.complete_step = 4;
  EXPECT_EQ(ToEvent(7, outcome).position, (agent::StepPosition{3, 4}));
  EXPECT_EQ(ToEvent(7, outcome).generation, 7);
}

TEST(SessionMessagesTest, ASuspicionTellsHowTheLinkFailed) {
  RunOutcome outcome;
  outcome.kind = RunOutcome::Kind::kPeerFailed;
  outcome.status = ClosedByPeer("rank 2");
  EXPECT_EQ(ToEvent(7, outcome).failure, v1::LINK_FAILURE_CLOSED);
  outcome.status = absl::DeadlineExceededError("nothing came");
  EXPECT_EQ(ToEvent(7, outcome).failure, v1::LINK_FAILURE_NO_ANSWER);
  agent::SendSuspicion send;
  send.failure = v1::LINK_FAILURE_REFUSED;
  EXPECT_EQ(ToMessage(send, TrainProgress()).suspicion().failure(),
            v1::LINK_FAILURE_REFUSED);
}

TEST(SessionMessagesTest, ASuspicionTellsWhetherThePeerWasEverReached) {
  for (const bool is_unreached : {false, true}) {
    RunOutcome outcome;
    outcome.kind = RunOutcome::Kind::kPeerFailed;
    outcome.is_unreached = is_unreached;
    EXPECT_EQ(ToEvent(7, outcome).is_unreached, is_unreached);
    agent::SendSuspicion send;
    send.is_unreached = is_unreached;
    EXPECT_EQ(ToMessage(send, TrainProgress()).suspicion().unreached(),
              is_unreached);
  }
}

TEST(SessionMessagesTest, ASuspicionTellsWhetherThePeerHeldAnotherState) {
  for (const bool holds_other_state : {false, true}) {
    RunOutcome outcome;
    outcome.kind = RunOutcome::Kind::kPeerFailed;
    outcome.holds_other_state = holds_other_state;
    EXPECT_EQ(ToEvent(7, outcome).holds_other_state, holds_other_state);
    agent::SendSuspicion send;
    send.holds_other_state = holds_other_state;
    EXPECT_EQ(ToMessage(send, TrainProgress()).suspicion().holds_other_state(),
              holds_other_state);
  }
}

v1::SessionResponse GoodProbe() {
  v1::SessionResponse response;
  v1::Probe& probe = *response.mutable_probe();
  probe.set_generation(7);
  probe.set_number(3);
  *probe.mutable_timeout() = ToProto(absl::Milliseconds(750));
  probe.add_peers()->set_data_address("10.0.0.1:5");
  probe.add_peers()->set_rank(2);
  return response;
}

TEST(SessionMessagesTest, AProbeIsAnsweredForEachPeer) {
  const auto event = ToEvent(GoodProbe());
  ASSERT_TRUE(event.ok()) << event.status();
  const v1::Probe& probe = std::get<agent::ProbeRequested>(**event).probe;
  const v1::SessionRequest request = ProbedMessage(
      probe, {absl::OkStatus(),
              WithLinkFailure(absl::DeadlineExceededError("10.0.0.2:5: late"),
                              LinkFailure::kNoAnswer)});
  const v1::Probed& answer = request.probed();
  EXPECT_EQ(answer.generation(), 7);
  EXPECT_EQ(answer.number(), 3);
  ASSERT_EQ(answer.results_size(), 2);
  EXPECT_TRUE(answer.results(0).reached());
  EXPECT_EQ(answer.results(1).peer_rank(), 2);
  EXPECT_FALSE(answer.results(1).reached());
  EXPECT_EQ(answer.results(1).failure(), v1::LINK_FAILURE_NO_ANSWER);
  EXPECT_EQ(answer.results(1).detail(), "10.0.0.2:5: late");
}

TEST(SessionMessagesTest, AProbeThatMakesNoSenseIsRefused) {
  v1::SessionResponse without_time = GoodProbe();
  without_time.mutable_probe()->clear_timeout();
  v1::SessionResponse endless = GoodProbe();
  *endless.mutable_probe()->mutable_timeout() = ToProto(absl::Hours(1));
  v1::SessionResponse crowd = GoodProbe();
  for (int i = 0; i < 63; ++i) crowd.mutable_probe()->add_peers();
  const std::pair<v1::SessionResponse, std::string> bad[] = {
      {without_time, "probe has a timeout of 0"},
      {endless, "probe has a timeout of 1h"},
      {crowd, "probe has 65 peers, more than 64"}};
  for (const auto& [message, what] : bad) {
    const auto event = ToEvent(message);
    ASSERT_FALSE(event.ok());
    EXPECT_EQ(ReasonOf(event.status()), reason::kSessionProtocolViolation);
    EXPECT_THAT(event.status().message(), HasSubstr(what));
  }
}

TEST(SessionMessagesTest, TheHelloTellsTheJobAndHowThePredecessorEnded) {
  WorkerIdentity identity;
  identity.name = "w1";
  TrainProgress progress;
  progress.applied_step = 5;
  const v1::Hello fresh =
      HelloMessage(identity, agent::OpenSession{}, progress).hello();
  EXPECT_FALSE(fresh.has_predecessor());
  EXPECT_FALSE(fresh.has_held_job());
  EXPECT_EQ(fresh.applied_step(), 0);
  EXPECT_EQ(fresh.formed_by(), 0u);
  agent::OpenSession open;
  open.generation = 7;
  open.formed_by = 11;
  open.attempt = 3;
  const v1::Hello held = HelloMessage(identity, open, progress).hello();
  EXPECT_EQ(held.formed_by(), 11u);
  EXPECT_EQ(held.attempt(), 3u);

  identity.predecessor = ProcessEnd{4711, 0, 9};
  const auto event = ToEvent(GoodAssignment());
  ASSERT_TRUE(event.ok());
  const v1::Hello again =
      HelloMessage(identity,
                   {7, std::get<agent::AssignmentReceived>(**event).payload},
                   progress)
          .hello();
  EXPECT_EQ(again.predecessor().pid(), 4711);
  EXPECT_EQ(again.predecessor().signal(), 9);
  EXPECT_EQ(again.generation(), 7);
  EXPECT_EQ(again.applied_step(), 5);
  EXPECT_EQ(again.held_job().job_id(), "mlp-1");
  EXPECT_EQ(again.held_job().spec().train().steps(), 10);
  EXPECT_EQ(again.held_job().rank(), 1);
  EXPECT_EQ(again.held_job().world_size(), 3);
  EXPECT_EQ(again.held_job().resume_step(), 4);

  // Steps beyond the resume step may have been given up.
  progress.phase = TrainPhase::kPrepare;
  EXPECT_EQ(
      HelloMessage(identity,
                   {7, std::get<agent::AssignmentReceived>(**event).payload},
                   progress)
          .hello()
          .applied_step(),
      4);
}

TEST(SessionMessagesTest, TellsWhatAJobEndedWith) {
  const auto end_of = [](v1::JobState state, int exit_code) {
    v1::SessionResponse response;
    response.mutable_release()->set_generation(7);
    response.mutable_release()->set_state(state);
    response.mutable_release()->set_exit_code(exit_code);
    const auto event = ToEvent(response);
    EXPECT_TRUE(event.ok()) << event.status();
    return std::get<agent::ReleaseReceived>(**event).job_end;
  };
  EXPECT_EQ(end_of(v1::JOB_STATE_SUCCEEDED, 0), ExitCode::kDone);
  EXPECT_EQ(end_of(v1::JOB_STATE_CANCELLED, 0), ExitCode::kDone);
  EXPECT_EQ(end_of(v1::JOB_STATE_FAILED, 5), ExitCode::kUnreadable);
  EXPECT_EQ(end_of(v1::JOB_STATE_FAILED, 99), ExitCode::kInternal);
  EXPECT_EQ(end_of(v1::JOB_STATE_FAILED, 0), std::nullopt);
  EXPECT_EQ(end_of(v1::JOB_STATE_RUNNING, 0), std::nullopt);
}

}  // namespace
}  // namespace ringmaster
