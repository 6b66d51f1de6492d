#include "server/coordinator/rpc/session_message.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/protocol/collective_costs_proto.h"
#include "common/protocol/no_figures.h"
#include "common/protocol/proto_time.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::SessionRequest GoodHello() {
  v1::SessionRequest request;
  v1::Hello& hello = *request.mutable_hello();
  hello.set_name("w0");
  hello.set_incarnation(77);
  hello.set_role(v1::ROLE_WORKER);
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  hello.set_host("node-1");
  hello.set_host_key("machine-1");
  hello.set_pid(4242);
  hello.mutable_device()->set_kind(v1::DEVICE_KIND_CUDA);
  hello.mutable_device()->set_index(3);
  hello.set_data_port(29500);
  return request;
}

TEST(SessionMessageTest, HelloKeepsWhatItSays) {
  v1::SessionRequest request = GoodHello();
  request.mutable_hello()->set_generation(5);
  request.mutable_hello()->set_applied_step(40);
  request.mutable_hello()->set_attempt(6);
  const absl::StatusOr<EventBody> event =
      ParseSessionMessage(9, request, "10.0.0.7");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& hello = std::get<HelloReceived>(*event);
  EXPECT_EQ(hello.session, 9u);
  EXPECT_EQ(hello.name, "w0");
  EXPECT_EQ(hello.incarnation, 77u);
  EXPECT_EQ(hello.role, v1::ROLE_WORKER);
  EXPECT_EQ(hello.host, "node-1");
  EXPECT_EQ(hello.host_key, "machine-1");
  EXPECT_EQ(hello.container, "");
  EXPECT_EQ(hello.pid, 4242);
  EXPECT_EQ(hello.device.kind, v1::DEVICE_KIND_CUDA);
  EXPECT_EQ(hello.device.index, 3);
  EXPECT_EQ(hello.data_address, "10.0.0.7:29500");
  EXPECT_EQ(hello.generation, 5);
  EXPECT_EQ(hello.attempt, 6u);
  EXPECT_EQ(hello.applied_step, 40);
}

// A hello with a job in generation 5.
v1::SessionRequest HelloWithJob() {
  v1::SessionRequest request = GoodHello();
  request.mutable_hello()->set_generation(5);
  v1::HeldJob& held = *request.mutable_hello()->mutable_held_job();
  held.set_job_id("digits-1");
  held.set_rank(1);
  held.set_world_size(3);
  held.set_resume_step(40);
  held.add_placements()->set_primary_rank(2);
  held.mutable_placements(0)->set_backup_rank(-1);
  held.mutable_placements(0)->set_source_rank(1);
  v1::JobSpec& spec = *held.mutable_spec();
  spec.set_name("digits");
  spec.mutable_workers()->set_min(2);
  spec.mutable_workers()->set_max(4);
  spec.mutable_train()->mutable_model()->mutable_mlp();
  spec.mutable_train()->mutable_data()->mutable_synthetic();
  spec.mutable_train()->set_steps(100);
  return request;
}

TEST(SessionMessageTest, HelloTellsOfItsPredecessor) {
  v1::SessionRequest request = GoodHello();
  v1::ProcessEnd& end = *request.mutable_hello()->mutable_predecessor();
  end.set_pid(4241);
  end.set_signal(9);
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& hello = std::get<HelloReceived>(*event);
  ASSERT_TRUE(hello.predecessor.has_value());
  EXPECT_EQ(hello.predecessor->pid(), 4241);
  EXPECT_EQ(hello.predecessor->exit_code(), 0);
  EXPECT_EQ(hello.predecessor->signal(), 9);
  const auto without = ParseSessionMessage(9, GoodHello(), "");
  EXPECT_FALSE(std::get<HelloReceived>(*without).predecessor.has_value());
}

TEST(SessionMessageTest, HelloTellsOfLabels) {
  v1::SessionRequest request = GoodHello();
  (*request.mutable_hello()->mutable_labels())["gpu"] = "h100";
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(std::get<HelloReceived>(*event).labels, (Labels{{"gpu", "h100"}}));
  (*request.mutable_hello()->mutable_labels())["host"] = "another";
  EXPECT_EQ(ParseSessionMessage(9, request, "").status().message(),
            "hello.labels: key \"host\" is one that every worker has");
}

TEST(SessionMessageTest, HelloTellsWhatCollectivesCost) {
  v1::SessionRequest request = GoodHello();
  MachineCosts costs;
  costs.cores = 3;
  *request.mutable_hello()->mutable_costs() = ToProto(costs);
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(std::get<HelloReceived>(*event).costs, costs);
  EXPECT_EQ(std::get<HelloReceived>(*event).costs_fault, "");
  const auto without = ParseSessionMessage(9, GoodHello(), "");
  EXPECT_FALSE(std::get<HelloReceived>(*without).costs.has_value());
  EXPECT_EQ(std::get<HelloReceived>(*without).costs_fault, "");
}

TEST(SessionMessageTest, CostsThatCannotBeAreLeftOutOfAHelloThatIsAccepted) {
  v1::SessionRequest request = GoodHello();
  v1::CollectiveCosts& costs = *request.mutable_hello()->mutable_costs();
  costs = ToProto(MachineCosts());
  costs.mutable_remote()->set_seconds_per_byte(std::nan(""));
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_FALSE(std::get<HelloReceived>(*event).costs.has_value());
  EXPECT_THAT(std::get<HelloReceived>(*event).costs_fault,
              HasSubstr("costs.remote.seconds_per_byte must be above 0"));
}

TEST(SessionMessageTest, FiguresKeepTheAlgorithmsThatThisBuildKnows) {
  v1::SessionRequest request;
  v1::TrainingFigures& figures = *request.mutable_beat()->mutable_figures();
  figures.add_all_reduce_algorithms(v1::COLLECTIVE_ALGORITHM_EXCHANGE);
  figures.add_all_reduce_algorithms(static_cast<v1::CollectiveAlgorithm>(99));
  figures.add_all_reduce_algorithms(v1::COLLECTIVE_ALGORITHM_HIERARCHICAL);
  figures.set_awaited_rank(2);
  figures.set_awaited_ratio(0.5);
  *figures.mutable_all_reduce_duration() = ToProto(absl::Milliseconds(2));
  *figures.mutable_predicted_all_reduce_duration() =
      ToProto(absl::Milliseconds(1));
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const v1::TrainingFigures& got = std::get<BeatReceived>(*event).figures;
  EXPECT_THAT(got.all_reduce_algorithms(),
              ElementsAre(v1::COLLECTIVE_ALGORITHM_EXCHANGE,
                          v1::COLLECTIVE_ALGORITHM_HIERARCHICAL));
  EXPECT_EQ(got.awaited_rank(), 2);
  EXPECT_EQ(got.awaited_ratio(), 0.5);
  EXPECT_EQ(FromProto(got.all_reduce_duration()), absl::Milliseconds(2));
  EXPECT_EQ(FromProto(got.predicted_all_reduce_duration()),
            absl::Milliseconds(1));
}

TEST(SessionMessageTest, HelloTellsOfTheJobThatItHolds) {
  const auto event = ParseSessionMessage(9, HelloWithJob(), "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& hello = std::get<HelloReceived>(*event);
  EXPECT_EQ(hello.held_job_fault, "");
  ASSERT_TRUE(hello.held_job.has_value());
  EXPECT_EQ(hello.held_job->job_id, "digits-1");
  EXPECT_EQ(hello.held_job->name, "digits");
  EXPECT_EQ(hello.held_job->min_workers, 2);
  EXPECT_EQ(hello.held_job->max_workers, 4);
  EXPECT_EQ(hello.held_job->settle, absl::Seconds(1));
  EXPECT_EQ(hello.held_job->total_steps, 100);
  EXPECT_EQ(hello.held_job->rank, 1);
  EXPECT_EQ(hello.held_job->world_size, 3);
  EXPECT_EQ(hello.held_job->resume_step, 40);
  EXPECT_EQ(hello.held_job->placements,
            (std::vector<ShardPlacement>{
                {.primary_rank = 2, .backup_rank = -1, .source_rank = 1}}));
  v1::JobSpec spec;
  ASSERT_TRUE(spec.ParseFromString(hello.held_job->spec));
  EXPECT_EQ(spec.train().global_batch(), 256);
}

TEST(SessionMessageTest, AJobThatCannotBeIsLeftOutOfAHelloThatIsAccepted) {
  const auto fault = [](const std::function<void(v1::Hello&)>& spoil) {
    v1::SessionRequest request = HelloWithJob();
    spoil(*request.mutable_hello());
    const auto event = ParseSessionMessage(9, request, "");
    if (!event.ok()) return event.status().ToString();
    const auto& hello = std::get<HelloReceived>(*event);
    EXPECT_FALSE(hello.held_job.has_value());
    return hello.held_job_fault;
  };
  using Hello = v1::Hello;
  EXPECT_THAT(
      fault([](Hello& h) {
        h.mutable_held_job()->mutable_spec()->mutable_train()->set_steps(0);
      }),
      HasSubstr("train.steps must be"));
  EXPECT_THAT(fault([](Hello& h) { h.mutable_held_job()->clear_job_id(); }),
              HasSubstr("hello.held_job.job_id must have"));
  EXPECT_THAT(fault([](Hello& h) { h.mutable_held_job()->set_rank(3); }),
              HasSubstr("hello.held_job.rank must be in [0, 2], got 3"));
  EXPECT_THAT(fault([](Hello& h) { h.mutable_held_job()->set_world_size(0); }),
              HasSubstr("hello.held_job.world_size must be"));
  EXPECT_THAT(
      fault([](Hello& h) { h.mutable_held_job()->set_world_size(INT32_MAX); }),
      HasSubstr("hello.held_job.world_size must be in [1, 8192]"));
  EXPECT_THAT(
      fault([](Hello& h) { h.mutable_held_job()->set_resume_step(-1); }),
      HasSubstr("hello.held_job.resume_step must be"));
  EXPECT_THAT(fault([](Hello& h) { h.clear_generation(); }),
              HasSubstr("needs the hello to name a generation"));
}

TEST(SessionMessageTest, NoticeKeepsWhatItSays) {
  v1::SessionRequest request;
  v1::Notice& notice = *request.mutable_notice();
  notice.set_generation(5);
  notice.set_step(40);
  notice.set_kind(v1::NOTICE_KIND_SAMPLE);
  notice.set_message("a sample");
  notice.mutable_sample()->set_step(40);
  notice.mutable_sample()->set_prompt("The");
  notice.mutable_sample()->set_text(std::string(9000, 'x'));
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& received = std::get<NoticeReceived>(*event);
  EXPECT_EQ(received.session, 9u);
  EXPECT_EQ(received.notice.generation(), 5);
  EXPECT_EQ(received.notice.step(), 40);
  EXPECT_EQ(received.notice.kind(), v1::NOTICE_KIND_SAMPLE);
  EXPECT_EQ(received.notice.message(), "a sample");
  EXPECT_EQ(received.notice.sample().step(), 40);
  EXPECT_EQ(received.notice.sample().prompt(), "The");
  EXPECT_EQ(received.notice.sample().text(), std::string(kMaxSampleText, 'x'));
}

TEST(SessionMessageTest, EveryNoticeHasItsEvent) {
  const google::protobuf::EnumDescriptor& kinds = *v1::NoticeKind_descriptor();
  std::set<std::string> types;
  for (int i = 1; i < kinds.value_count(); ++i) {  // 0 is "not set"
    const v1::NoticeEvent& event =
        kinds.value(i)->options().GetExtension(v1::notice_event);
    EXPECT_NE(event.severity(), v1::EVENT_SEVERITY_UNSPECIFIED) << i;
    EXPECT_FALSE(event.message().empty()) << i;
    EXPECT_TRUE(types.insert(event.type()).second) << event.type();
  }
  EXPECT_FALSE(types.contains(""));
}

TEST(SessionMessageTest, ANoticeOfAnUnknownKindOnlyProvesLife) {
  v1::SessionRequest request;
  request.mutable_notice()->set_generation(5);
  request.mutable_notice()->set_kind(static_cast<v1::NoticeKind>(99));
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_TRUE(std::holds_alternative<HeardFrom>(*event));
}

TEST(SessionMessageTest, AMemberMayHoldACheckpointThatItHasNotApplied) {
  v1::SessionRequest request;
  request.mutable_halted()->set_generation(5);
  request.mutable_halted()->set_complete_step(400);
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(std::get<HaltedReceived>(*event).applied_step, 0);
  EXPECT_EQ(std::get<HaltedReceived>(*event).complete_step, 400);
}

TEST(SessionMessageTest, HaltedTellsWhichShardsAreHeld) {
  v1::SessionRequest request;
  v1::Halted& halted = *request.mutable_halted();
  halted.set_generation(5);
  for (const int shard : {2, 0}) {
    v1::HeldShard& held = *halted.add_shards();
    held.set_shard(shard);
    held.set_complete_step(40 + shard);
  }
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(std::get<HaltedReceived>(*event).shards,
            (std::vector<HeldShard>{{2, 42}, {0, 40}}));
  halted.mutable_shards(1)->set_shard(2);
  EXPECT_THAT(
      std::string(ParseSessionMessage(9, request, "").status().message()),
      HasSubstr("halted.shards must name each shard once, got 2 twice"));
  halted.mutable_shards(1)->set_shard(-1);
  EXPECT_THAT(
      std::string(ParseSessionMessage(9, request, "").status().message()),
      HasSubstr("halted.shards.shard must be in [0, 65535], got -1"));
}

TEST(SessionMessageTest, AParameterServerHasARankAfterThoseOfTheWorkers) {
  v1::SessionRequest request = HelloWithJob();
  v1::HeldJob& held = *request.mutable_hello()->mutable_held_job();
  held.set_servers(2);
  held.set_rank(4);
  auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& hello = std::get<HelloReceived>(*event);
  ASSERT_TRUE(hello.held_job.has_value()) << hello.held_job_fault;
  EXPECT_EQ(hello.held_job->servers, 2);
  EXPECT_EQ(hello.held_job->rank, 4);
  held.set_rank(5);
  event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_FALSE(std::get<HelloReceived>(*event).held_job.has_value());
}

TEST(SessionMessageTest, BeatsAndEndsKeepWhatARankHasDone) {
  v1::SessionRequest beat;
  beat.mutable_beat()->mutable_rank()->set_sent_bytes(5);
  for (int i = 0; i < 100; ++i)
    beat.mutable_beat()->mutable_rank()->add_staleness(i);
  auto event = ParseSessionMessage(9, beat, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& of_beat = std::get<BeatReceived>(*event).rank_figures;
  ASSERT_NE(of_beat, nullptr);
  EXPECT_EQ(of_beat->sent_bytes(), 5);
  EXPECT_EQ(of_beat->staleness_size(), 16) << "no member's entry gets large";
  v1::SessionRequest finished;
  finished.mutable_finished()->set_generation(1);
  event = ParseSessionMessage(9, finished, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(std::get<FinishedReceived>(*event).rank_figures, nullptr);
  finished.mutable_finished()->mutable_rank()->set_steps(6);
  event = ParseSessionMessage(9, finished, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& of_end = std::get<FinishedReceived>(*event).rank_figures;
  ASSERT_NE(of_end, nullptr);
  EXPECT_EQ(of_end->steps(), 6);
}

TEST(SessionMessageTest, BeatKeepsTheEnginesFigures) {
  v1::SessionRequest request;
  v1::TrainingFigures& figures = *request.mutable_beat()->mutable_figures();
  figures.set_targets_per_second(1);
  figures.set_model_flops_utilization(0.5);
  figures.set_learning_rate(0.25);
  figures.mutable_phases()->mutable_data_wait()->set_seconds(1);
  figures.mutable_phases()->mutable_forward()->set_seconds(2);
  figures.mutable_phases()->mutable_backward()->set_seconds(3);
  figures.mutable_phases()->mutable_communication_wait()->set_seconds(4);
  figures.mutable_phases()->mutable_optimizer()->set_seconds(5);
  figures.mutable_phases()->mutable_snapshot()->set_seconds(6);
  figures.set_payload_theory_bytes(7);
  figures.set_evaluation_accuracy(0.125);
  figures.set_checkpoint_step(8);
  figures.set_skipped_samples(9);
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  v1::TrainingFigures expected = NoFigures();
  expected.MergeFrom(figures);
  expected.set_awaited_rank(0);
  EXPECT_EQ(std::get<BeatReceived>(*event).figures.DebugString(),
            expected.DebugString());
}

// Calls `visit` with each duration that `message` can have, at any depth.
void ForEachDuration(
    google::protobuf::Message& message,
    const std::function<void(google::protobuf::Duration&)>& visit) {
  if (auto* const duration =
          dynamic_cast<google::protobuf::Duration*>(&message)) {
    visit(*duration);
    return;
  }
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    if (field.message_type() == nullptr || field.is_repeated()) continue;
    ForEachDuration(*message.GetReflection()->MutableMessage(&message, &field),
                    visit);
  }
}

// A duration that is added to the figures and forgotten in session_message.cc
// fails this.
TEST(SessionMessageTest, EveryDurationOfFiguresIsMadeFit) {
  v1::SessionRequest request;
  const auto spoil = [](google::protobuf::Duration& duration) {
    duration.set_nanos(2'000'000'000);
  };
  ForEachDuration(*request.mutable_beat()->mutable_figures(), spoil);
  ForEachDuration(*request.mutable_beat()->mutable_rank(), spoil);
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  v1::TrainingFigures figures = std::get<BeatReceived>(*event).figures;
  v1::RankFigures rank = *std::get<BeatReceived>(*event).rank_figures;
  int durations = 0;
  const auto expect_fit = [&](google::protobuf::Duration& duration) {
    EXPECT_EQ(duration.seconds(), 2);
    EXPECT_EQ(duration.nanos(), 0);
    ++durations;
  };
  ForEachDuration(figures, expect_fit);
  ForEachDuration(rank, expect_fit);
  EXPECT_GE(durations, 18);
}

TEST(SessionMessageTest, UnknownFieldsDoNotMakeAMembersEntryLarge) {
  v1::SessionRequest request;
  for (google::protobuf::Message* const message :
       {static_cast<google::protobuf::Message*>(
            request.mutable_beat()->mutable_figures()),
        static_cast<google::protobuf::Message*>(
            request.mutable_beat()->mutable_rank())}) {
    message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(
        999, std::string(1 << 20, 'x'));
  }
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& beat = std::get<BeatReceived>(*event);
  EXPECT_LT(beat.figures.ByteSizeLong(), 2048u);
  EXPECT_LT(beat.rank_figures->ByteSizeLong(), 2048u);
}

TEST(SessionMessageTest, ABeatWithoutFiguresAwaitsNobody) {
  v1::SessionRequest request;
  request.mutable_beat()->set_generation(1);
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(std::get<BeatReceived>(*event).figures.awaited_rank(), -1);
}

TEST(SessionMessageTest, AdvertisedHostWins) {
  v1::SessionRequest request = GoodHello();
  request.mutable_hello()->set_advertise_host("fd00::7");
  const auto event = ParseSessionMessage(9, request, "10.0.0.7");
  EXPECT_EQ(std::get<HelloReceived>(*event).data_address, "[fd00::7]:29500");
}

TEST(SessionMessageTest, HostKeyFallsBackToTheHost) {
  v1::SessionRequest request = GoodHello();
  request.mutable_hello()->clear_host_key();
  const auto event = ParseSessionMessage(9, request, "");
  EXPECT_EQ(std::get<HelloReceived>(*event).host_key, "node-1");
  EXPECT_EQ(std::get<HelloReceived>(*event).data_address, "127.0.0.1:29500");
}

TEST(SessionMessageTest, AHostOnANodeIsAContainerOfIt) {
  v1::SessionRequest request = GoodHello();
  request.mutable_hello()->set_host("pod-7");
  request.mutable_hello()->set_node("node-1.internal");
  const auto event = ParseSessionMessage(9, request, "");
  const auto& hello = std::get<HelloReceived>(*event);
  EXPECT_EQ(hello.host, "node-1.internal");
  EXPECT_EQ(hello.host_key, "node-1.internal");
  EXPECT_EQ(hello.container, "machine-1");
}

TEST(SessionMessageTest, BeatKeepsWhatItSays) {
  v1::SessionRequest request;
  v1::Beat& beat = *request.mutable_beat();
  beat.set_generation(3);
  beat.set_step(17);
  beat.set_phase(v1::PHASE_STEP);
  beat.set_collective_sequence(99);
  beat.set_disk_bytes(5'000'000'000);
  beat.set_waiting_for_rank(-1);
  beat.mutable_figures()->set_loss(2.5);
  beat.mutable_figures()->set_evaluation_loss(2.25);
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& received = std::get<BeatReceived>(*event);
  EXPECT_EQ(received.generation, 3);
  EXPECT_EQ(received.step, 17);
  EXPECT_EQ(received.phase, v1::PHASE_STEP);
  EXPECT_EQ(received.collective_sequence, 99);
  EXPECT_EQ(received.disk_bytes, 5'000'000'000);
  EXPECT_EQ(received.waiting_for_rank, -1);
  EXPECT_EQ(received.figures.loss(), 2.5);
  EXPECT_EQ(received.figures.evaluation_loss(), 2.25);
}

v1::BenchFigures SomeBench() {
  v1::BenchFigures bench;
  bench.set_limit_bytes_per_second(1e9);
  bench.add_rows()->set_bytes(4096);
  return bench;
}

TEST(SessionMessageTest, BeatAndEndTellWhatABenchmarkMeasured) {
  v1::SessionRequest beat;
  *beat.mutable_beat()->mutable_bench() = SomeBench();
  const auto first = ParseSessionMessage(9, beat, "");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto& of_beat = std::get<BeatReceived>(*first).bench;
  ASSERT_TRUE(of_beat.has_value());
  EXPECT_EQ(of_beat->rows(0).bytes(), 4096);
  v1::SessionRequest end;
  end.mutable_finished()->set_generation(1);
  const auto none = ParseSessionMessage(9, end, "");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(std::get<FinishedReceived>(*none).bench.has_value());
  *end.mutable_finished()->mutable_bench() = SomeBench();
  const auto last = ParseSessionMessage(9, end, "");
  ASSERT_TRUE(last.ok()) << last.status();
  const auto& of_end = std::get<FinishedReceived>(*last).bench;
  ASSERT_TRUE(of_end.has_value());
  EXPECT_EQ(of_end->DebugString(), of_beat->DebugString());
}

TEST(SessionMessageTest, ABenchmarkThatCannotBeIsAViolation) {
  const auto expect = [](const char* field, const auto& change) {
    v1::SessionRequest request;
    *request.mutable_beat()->mutable_bench() = SomeBench();
    change(*request.mutable_beat()->mutable_bench());
    const auto event = ParseSessionMessage(9, request, "");
    EXPECT_EQ(ReasonOf(event.status()), reason::kSessionProtocolViolation);
    EXPECT_THAT(std::string(event.status().message()), HasSubstr(field));
  };
  expect("beat.bench.rows must be", [](auto& bench) {
    for (int i = 0; i < 256; ++i) bench.add_rows();
  });
  expect("bench.rows.bytes",
         [](auto& bench) { bench.mutable_rows(0)->set_bytes(-1); });
  expect("bench.rows.count",
         [](auto& bench) { bench.mutable_rows(0)->set_count(-1); });
  expect("bench.rows.iterations",
         [](auto& bench) { bench.mutable_rows(0)->set_iterations(-1); });
  expect("bench.rows.wrong",
         [](auto& bench) { bench.mutable_rows(0)->set_wrong(-1); });
  expect("bench.rows.p50_seconds", [](auto& bench) {
    bench.mutable_rows(0)->set_p50_seconds(std::nan(""));
  });
  expect("bench.rows.p99_seconds",
         [](auto& bench) { bench.mutable_rows(0)->set_p99_seconds(-1); });
  expect("bench.rows.predicted_seconds",
         [](auto& bench) { bench.mutable_rows(0)->set_predicted_seconds(-1); });
  expect("bench.limit_bytes_per_second",
         [](auto& bench) { bench.set_limit_bytes_per_second(-1); });
}

TEST(SessionMessageTest, BeatKeepsThePhasesOfARecovery) {
  v1::SessionRequest request;
  for (const v1::Phase phase : {v1::PHASE_TRANSFER, v1::PHASE_CHECKPOINT}) {
    request.mutable_beat()->set_phase(phase);
    const auto event = ParseSessionMessage(9, request, "");
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(static_cast<int>(std::get<BeatReceived>(*event).phase), phase);
  }
}

TEST(SessionMessageTest, UnknownPhaseIsNoViolation) {
  v1::SessionRequest request;
  request.mutable_beat()->set_phase(static_cast<v1::Phase>(99));
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(std::get<BeatReceived>(*event).phase, v1::PHASE_UNSPECIFIED);
}

TEST(SessionMessageTest, DataOfAWorkerAreBounded) {
  v1::SessionRequest request;
  request.mutable_prepared()->set_generation(1);
  const auto data = [&request] {
    return std::get<PreparedReceived>(*ParseSessionMessage(9, request, ""))
        .data;
  };
  EXPECT_EQ(data().parts_size(), 0) << "as from release 0.1";
  for (int i = 0; i < 100; ++i) {
    v1::DataPart& part =
        *request.mutable_prepared()->mutable_data()->add_parts();
    part.set_first_file(std::string(5000, 'x'));
    part.set_files(3);
    part.set_size_bytes(100 + i);
    part.set_hash(7);
  }
  ASSERT_EQ(data().parts_size(), 64);
  EXPECT_EQ(data().parts(63).first_file().size(), 1024u);
  EXPECT_EQ(data().parts(63).files(), 3);
  EXPECT_EQ(data().parts(63).size_bytes(), 163);
  EXPECT_EQ(data().parts(63).hash(), 7u);
  v1::DataIdentity& said = *request.mutable_prepared()->mutable_data();
  said.mutable_parts(64)->set_files(-1);
  EXPECT_TRUE(ParseSessionMessage(9, request, "").ok()) << "it is cut off";
  for (const int64_t value : {int64_t{-1}, (int64_t{1} << 56) + 1}) {
    said.mutable_parts(63)->set_size_bytes(value);
    EXPECT_THAT(
        std::string(ParseSessionMessage(9, request, "").status().message()),
        HasSubstr("data.parts.size_bytes"));
    said.mutable_parts(63)->set_size_bytes(1);
    said.mutable_parts(63)->set_files(value);
    EXPECT_THAT(
        std::string(ParseSessionMessage(9, request, "").status().message()),
        HasSubstr("data.parts.files"));
    said.mutable_parts(63)->set_files(1);
  }
}

TEST(SessionMessageTest, OtherMessagesBecomeTheirEvents) {
  v1::SessionRequest request;
  request.mutable_prepared()->set_generation(1);
  request.mutable_prepared()->set_plan_hash(11);
  EXPECT_EQ(std::get<PreparedReceived>(*ParseSessionMessage(9, request, ""))
                .plan_hash,
            11u);
  request.mutable_halted()->set_generation(1);
  request.mutable_halted()->set_applied_step(4);
  request.mutable_halted()->set_complete_step(5);
  EXPECT_EQ(std::get<HaltedReceived>(*ParseSessionMessage(9, request, ""))
                .complete_step,
            5);
  request.mutable_suspicion()->set_generation(1);
  request.mutable_suspicion()->set_peer_rank(2);
  const auto suspicion = [&request] {
    return std::get<SuspicionReceived>(*ParseSessionMessage(9, request, ""));
  };
  EXPECT_EQ(suspicion().peer_rank, 2);
  EXPECT_EQ(suspicion().is_unreached, std::nullopt);  // of release 0.1
  request.mutable_suspicion()->set_unreached(true);
  EXPECT_EQ(suspicion().is_unreached, true);
  EXPECT_FALSE(suspicion().holds_other_state);
  request.mutable_suspicion()->set_holds_other_state(true);
  EXPECT_TRUE(suspicion().holds_other_state);
  EXPECT_EQ(suspicion().failure, v1::LINK_FAILURE_UNSPECIFIED);
  request.mutable_suspicion()->set_failure(v1::LINK_FAILURE_CLOSED);
  EXPECT_EQ(suspicion().failure, v1::LINK_FAILURE_CLOSED);
  request.mutable_suspicion()->set_failure(static_cast<v1::LinkFailure>(99));
  EXPECT_EQ(suspicion().failure, v1::LINK_FAILURE_UNSPECIFIED);  // a later one
  request.mutable_finished()->set_generation(1);
  request.mutable_finished()->set_stopped(true);
  EXPECT_TRUE(std::get<FinishedReceived>(*ParseSessionMessage(9, request, ""))
                  .is_stopped);
  const auto failed = [&request] {
    return std::get<FailedReceived>(*ParseSessionMessage(9, request, ""));
  };
  request.mutable_failed()->set_exit_code(5);
  EXPECT_EQ(failed().exit_code, 5);
  EXPECT_FALSE(failed().is_of_job);
  request.mutable_failed()->set_of_job(true);
  EXPECT_TRUE(failed().is_of_job);
  EXPECT_FALSE(failed().was_preparing);
  request.mutable_failed()->set_preparing(true);
  EXPECT_TRUE(failed().was_preparing);
  request.mutable_leaving()->set_done(true);
  EXPECT_TRUE(
      std::get<LeavingReceived>(*ParseSessionMessage(9, request, "")).is_done);
  request.mutable_leaving()->mutable_patience()->set_seconds(30);
  EXPECT_EQ(
      std::get<LeavingReceived>(*ParseSessionMessage(9, request, "")).patience,
      absl::Seconds(30));
  request.mutable_trace_reply()->set_request_id(1);
  EXPECT_EQ(std::get<HeardFrom>(*ParseSessionMessage(9, request, "")).session,
            9u);
  request.mutable_log_reply()->set_request_id(1);
  EXPECT_EQ(std::get<HeardFrom>(*ParseSessionMessage(9, request, "")).session,
            9u);
}

TEST(SessionMessageTest, NoTimeIsLongerThanAYear) {
  v1::SessionRequest request;
  google::protobuf::Duration& patience =
      *request.mutable_leaving()->mutable_patience();
  const auto parsed = [&request] {
    return std::get<LeavingReceived>(*ParseSessionMessage(9, request, ""))
        .patience;
  };
  patience.set_seconds(INT64_MAX);
  EXPECT_EQ(parsed(), absl::Hours(365 * 24));
  patience.set_seconds(INT64_MIN);
  EXPECT_EQ(parsed(), absl::ZeroDuration());
  v1::Notice& notice = *request.mutable_notice();
  notice.set_generation(1);
  notice.set_kind(v1::NOTICE_KIND_CHECKPOINT_WRITTEN);
  notice.mutable_duration()->set_seconds(INT64_MAX);
  const auto event = ParseSessionMessage(9, request, "");
  EXPECT_EQ(FromProto(std::get<NoticeReceived>(*event).notice.duration()),
            absl::Hours(365 * 24));
}

TEST(SessionMessageTest, AHelloSaysWhetherAndWhereThereIsALog) {
  v1::SessionRequest request = GoodHello();
  EXPECT_FALSE(
      std::get<HelloReceived>(*ParseSessionMessage(9, request, "")).sends_logs);
  request.mutable_hello()->set_sends_logs(true);
  request.mutable_hello()->set_log_file("/var/log/w0");
  const auto hello =
      std::get<HelloReceived>(*ParseSessionMessage(9, request, ""));
  EXPECT_TRUE(hello.sends_logs);
  EXPECT_EQ(hello.log_file, "/var/log/w0");
}

v1::SessionRequest GoodProbed() {
  v1::SessionRequest request;
  v1::Probed& probed = *request.mutable_probed();
  probed.set_generation(7);
  probed.add_results()->set_reached(true);
  v1::ProbeResult& missed = *probed.add_results();
  missed.set_peer_rank(2);
  missed.set_failure(v1::LINK_FAILURE_NO_ANSWER);
  missed.set_detail("no connection within 750ms");
  return request;
}

TEST(SessionMessageTest, AnAnswerToAProbeKeepsWhoWasReached) {
  EXPECT_FALSE(std::get<HelloReceived>(*ParseSessionMessage(9, GoodHello(), ""))
                   .can_probe);
  v1::SessionRequest hello = GoodHello();
  hello.mutable_hello()->set_probes(true);
  EXPECT_TRUE(
      std::get<HelloReceived>(*ParseSessionMessage(9, hello, "")).can_probe);
  v1::SessionRequest request = GoodProbed();
  // A kind of a release to come.
  request.mutable_probed()->mutable_results(0)->set_failure(
      static_cast<v1::LinkFailure>(99));
  const auto event = ParseSessionMessage(9, request, "");
  ASSERT_TRUE(event.ok()) << event.status();
  const auto& received = std::get<ProbedReceived>(*event);
  EXPECT_EQ(received.session, 9u);
  EXPECT_EQ(received.probed.generation(), 7);
  ASSERT_EQ(received.probed.results_size(), 2);
  EXPECT_TRUE(received.probed.results(0).reached());
  EXPECT_EQ(received.probed.results(0).failure(), v1::LINK_FAILURE_UNSPECIFIED);
  EXPECT_EQ(received.probed.results(1).peer_rank(), 2);
  EXPECT_EQ(received.probed.results(1).failure(), v1::LINK_FAILURE_NO_ANSWER);
  EXPECT_EQ(received.probed.results(1).detail(), "no connection within 750ms");
}

v1::SessionRequest GoodCollectives() {
  v1::SessionRequest request;
  v1::RankTrace& trace = *request.mutable_trace_reply()->mutable_trace();
  trace.set_generation(7);
  trace.set_taken_nanos(100);
  for (const bool is_on_device : {false, true}) {
    v1::TraceSpan& done = *trace.add_spans();
    done.set_name("all_reduce");
    done.set_step(12);
    done.set_bucket(-1);
    done.set_sequence(56);
    done.set_ready_nanos(10);
    done.set_start_nanos(20);
    done.set_end_nanos(30);
    done.set_is_on_device(is_on_device);
    v1::TraceSpan& waiting = *trace.add_spans() = done;
    waiting.set_sequence(57);
    waiting.set_state(v1::SPAN_STATE_UNDER_WAY);
    waiting.clear_end_nanos();
    waiting.set_awaited_rank(3);
    v1::TraceSpan& queued = *trace.add_spans() = done;
    queued.set_sequence(58);
    queued.set_state(v1::SPAN_STATE_QUEUED);
    queued.clear_start_nanos();
    queued.clear_end_nanos();
  }
  return request;
}

TEST(SessionMessageTest, AFlightRecordIsKeptAndATraceIsNot) {
  const auto heard = [](const v1::SessionRequest& request) {
    return std::get<HeardFrom>(*ParseSessionMessage(9, request, ""));
  };
  v1::SessionRequest request = GoodCollectives();
  ASSERT_NE(heard(request).collectives, nullptr);
  EXPECT_EQ(heard(request).collectives->spans_size(), 6);
  // The spans of others are not looked at.
  request.mutable_trace_reply()->mutable_trace()->set_generation(0);
  request.mutable_trace_reply()->mutable_trace()->mutable_spans(0)->set_step(
      -1);
  EXPECT_EQ(heard(request).collectives, nullptr);
}

using CollectivesOffence = void (*)(v1::RankTrace&);

class CollectivesOffenceTest : public ::testing::TestWithParam<
                                   std::pair<const char*, CollectivesOffence>> {
};

TEST_P(CollectivesOffenceTest, IsRefusedByField) {
  v1::SessionRequest request = GoodCollectives();
  GetParam().second(*request.mutable_trace_reply()->mutable_trace());
  const absl::Status status = ParseSessionMessage(9, request, "").status();
  EXPECT_EQ(ReasonOf(status), reason::kSessionProtocolViolation);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(std::string("trace.") + GetParam().first + " must"));
}

INSTANTIATE_TEST_SUITE_P(
    All, CollectivesOffenceTest,
    ::testing::Values(
        std::pair("generation", [](auto& t) { t.set_generation(-1); }),
        std::pair("taken_nanos", [](auto& t) { t.set_taken_nanos(-1); }),
        std::pair("left_out_count", [](auto& t) { t.set_left_out_count(-1); }),
        std::pair("spans",
                  [](auto& t) {
                    for (int i = 0; i < kMaxRecordedCollectives; ++i)
                      t.add_spans();
                  }),
        std::pair("spans.name",
                  [](auto& t) {
                    t.mutable_spans(0)->set_name(std::string(33, 'x'));
                  }),
        std::pair("spans.name",
                  [](auto& t) { t.mutable_spans(0)->set_name("a\nb"); }),
        std::pair("spans.step",
                  [](auto& t) { t.mutable_spans(0)->set_step(-1); }),
        std::pair("spans.bucket",
                  [](auto& t) { t.mutable_spans(0)->set_bucket(-2); }),
        std::pair("spans.bytes",
                  [](auto& t) { t.mutable_spans(0)->set_bytes(-1); }),
        std::pair("spans.sequence",
                  [](auto& t) { t.mutable_spans(0)->set_sequence(0); }),
        std::pair("spans.sequence",
                  [](auto& t) { t.mutable_spans(1)->set_sequence(56); }),
        std::pair("spans.awaited_rank",
                  [](auto& t) { t.mutable_spans(1)->set_awaited_rank(-1); }),
        std::pair("spans.waited_nanos",
                  [](auto& t) { t.mutable_spans(0)->set_waited_nanos(101); }),
        std::pair("spans.ready_nanos",
                  [](auto& t) { t.mutable_spans(2)->set_ready_nanos(101); }),
        std::pair("spans.start_nanos",
                  [](auto& t) { t.mutable_spans(1)->set_start_nanos(9); }),
        std::pair("spans.end_nanos",
                  [](auto& t) { t.mutable_spans(0)->set_end_nanos(101); })),
    [](const auto& info) { return std::to_string(info.index); });

TEST(SessionMessageTest, FreeTextIsCut) {
  v1::SessionRequest request;
  request.mutable_failed()->set_exit_code(1);
  request.mutable_failed()->set_message(std::string(100'000, 'x'));
  const auto event = ParseSessionMessage(9, request, "");
  EXPECT_EQ(std::get<FailedReceived>(*event).message.size(), kMaxText);
}

struct Offence {
  const char* name;
  std::function<void(v1::SessionRequest&)> commit;
  const char* text;
};

class SessionOffenceTest : public ::testing::TestWithParam<Offence> {};

TEST_P(SessionOffenceTest, IsRefusedByField) {
  v1::SessionRequest request = GoodHello();
  GetParam().commit(request);
  const absl::Status status = ParseSessionMessage(9, request, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), reason::kSessionProtocolViolation);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    All, SessionOffenceTest,
    ::testing::Values(
        Offence{"Empty", [](auto& r) { r.Clear(); }, "the message is empty"},
        Offence{"NoName", [](auto& r) { r.mutable_hello()->clear_name(); },
                "hello.name must have"},
        Offence{"NameWithSpace",
                [](auto& r) { r.mutable_hello()->set_name("a b"); },
                "got \"a b\""},
        Offence{
            "NameTooLong",
            [](auto& r) { r.mutable_hello()->set_name(std::string(129, 'w')); },
            "hello.name must have 1 to 128"},
        Offence{"NoIncarnation",
                [](auto& r) { r.mutable_hello()->set_incarnation(0); },
                "hello.incarnation must not be 0"},
        Offence{"NoRole", [](auto& r) { r.mutable_hello()->clear_role(); },
                "hello.role must be"},
        Offence{"PredecessorWithoutSuchAPid",
                [](auto& r) {
                  r.mutable_hello()->mutable_predecessor()->set_pid(-1);
                },
                "hello.predecessor.pid must not be negative"},
        Offence{"PredecessorWithoutSuchACode",
                [](auto& r) {
                  r.mutable_hello()->mutable_predecessor()->set_exit_code(256);
                },
                "hello.predecessor.exit_code must be in [0, 255], got 256"},
        Offence{"PredecessorWithoutSuchASignal",
                [](auto& r) {
                  r.mutable_hello()->mutable_predecessor()->set_signal(65);
                },
                "hello.predecessor.signal must be in [0, 64], got 65"},
        Offence{"UnknownRole",
                [](auto& r) {
                  r.mutable_hello()->set_role(static_cast<v1::Role>(9));
                },
                "hello.role must be"},
        Offence{"NoProtocol",
                [](auto& r) { r.mutable_hello()->clear_protocol_min(); },
                "hello.protocol_min must be"},
        Offence{"ProtocolRangeReversed",
                [](auto& r) { r.mutable_hello()->set_protocol_min(2); },
                "hello.protocol_max must be in [2"},
        Offence{"NoHost", [](auto& r) { r.mutable_hello()->clear_host(); },
                "hello.host must have"},
        Offence{"BadHostKey",
                [](auto& r) { r.mutable_hello()->set_host_key("a\nb"); },
                "hello.host_key must have"},
        Offence{"BadNode", [](auto& r) { r.mutable_hello()->set_node("a b"); },
                "hello.node must have"},
        Offence{"NegativePid", [](auto& r) { r.mutable_hello()->set_pid(-1); },
                "hello.pid must not be negative"},
        Offence{
            "NegativeDevice",
            [](auto& r) { r.mutable_hello()->mutable_device()->set_index(-1); },
            "hello.device.index must not be negative"},
        Offence{"NoPort", [](auto& r) { r.mutable_hello()->clear_data_port(); },
                "hello.data_port must be in [1, 65535], got 0"},
        Offence{"BadAdvertisedHost",
                [](auto& r) { r.mutable_hello()->set_advertise_host("a b"); },
                "hello.advertise_host must have"},
        Offence{"HelloNegativeGeneration",
                [](auto& r) { r.mutable_hello()->set_generation(-1); },
                "hello.generation must not be negative"},
        Offence{"HelloNegativeStep",
                [](auto& r) { r.mutable_hello()->set_applied_step(-1); },
                "hello.applied_step must not be negative"},
        Offence{"BeatNegativeStep",
                [](auto& r) { r.mutable_beat()->set_step(-1); },
                "beat.step must not be negative, got -1"},
        Offence{"BeatNegativeGeneration",
                [](auto& r) { r.mutable_beat()->set_generation(-1); },
                "beat.generation"},
        Offence{"BeatNegativeCollective",
                [](auto& r) { r.mutable_beat()->set_collective_sequence(-1); },
                "beat.collective_sequence"},
        Offence{"BeatBeyondAnyCollective",
                [](auto& r) {
                  r.mutable_beat()->set_collective_sequence(INT64_MAX);
                },
                "beat.collective_sequence must be in [0"},
        Offence{"BeatNegativeDiskBytes",
                [](auto& r) { r.mutable_beat()->set_disk_bytes(-1); },
                "beat.disk_bytes"},
        Offence{"ProbedWithoutGeneration",
                [](auto& r) {
                  r = GoodProbed();
                  r.mutable_probed()->set_generation(0);
                },
                "probed.generation must be in [1, "},
        Offence{"ProbedOfBadRank",
                [](auto& r) {
                  r = GoodProbed();
                  r.mutable_probed()->mutable_results(1)->set_peer_rank(-3);
                },
                "probed.results.peer_rank must not be negative, got -3"},
        Offence{"ProbedTooMany",
                [](auto& r) {
                  r = GoodProbed();
                  for (int i = 0; i < 7; ++i) r.mutable_probed()->add_results();
                },
                "probed.results must be in [0, 8], got 9"},
        Offence{"BeatWaitsForBadRank",
                [](auto& r) { r.mutable_beat()->set_waiting_for_rank(-2); },
                "beat.waiting_for_rank must be in [-1"},
        Offence{"PreparedWithoutGeneration",
                [](auto& r) { r.mutable_prepared(); }, "prepared.generation"},
        Offence{"HaltedWithoutGeneration", [](auto& r) { r.mutable_halted(); },
                "halted.generation"},
        Offence{"HaltedNegativeStep",
                [](auto& r) {
                  r.mutable_halted()->set_generation(1);
                  r.mutable_halted()->set_applied_step(-1);
                },
                "halted.applied_step"},
        Offence{"HaltedTwoStepsAhead",
                [](auto& r) {
                  r.mutable_halted()->set_generation(1);
                  r.mutable_halted()->set_applied_step(7);
                  r.mutable_halted()->set_complete_step(9);
                },
                "halted.complete_step must be applied_step (7) or one more, "
                "got 9"},
        Offence{"HaltedNegativeCheckpoint",
                [](auto& r) {
                  r.mutable_halted()->set_generation(1);
                  r.mutable_halted()->set_complete_step(-1);
                },
                "halted.complete_step must be in [0"},
        Offence{"NoticeWithoutGeneration", [](auto& r) { r.mutable_notice(); },
                "notice.generation"},
        Offence{"NoticeNegativeStep",
                [](auto& r) {
                  r.mutable_notice()->set_generation(1);
                  r.mutable_notice()->set_step(-1);
                },
                "notice.step must be in [0"},
        Offence{"NoticeNegativeSampleStep",
                [](auto& r) {
                  r.mutable_notice()->set_generation(1);
                  r.mutable_notice()->mutable_sample()->set_step(-1);
                },
                "notice.sample.step must be in [0"},
        Offence{"HaltedBeyondAnyStep",
                [](auto& r) {
                  r.mutable_halted()->set_generation(1);
                  r.mutable_halted()->set_applied_step(INT64_MAX);
                  r.mutable_halted()->set_complete_step(INT64_MIN);
                },
                "halted.applied_step must be in [0"},
        Offence{"SuspicionNegativePeer",
                [](auto& r) {
                  r.mutable_suspicion()->set_generation(1);
                  r.mutable_suspicion()->set_peer_rank(-1);
                },
                "suspicion.peer_rank"},
        Offence{"SuspicionWithoutGeneration",
                [](auto& r) { r.mutable_suspicion(); }, "suspicion.generation"},
        Offence{"FinishedWithoutGeneration",
                [](auto& r) { r.mutable_finished(); }, "finished.generation"},
        Offence{"FinishedNegativeStep",
                [](auto& r) {
                  r.mutable_finished()->set_generation(1);
                  r.mutable_finished()->set_step(-1);
                },
                "finished.step"},
        Offence{"FailedWithCodeZero", [](auto& r) { r.mutable_failed(); },
                "failed.exit_code must be in [1, 255], got 0"},
        Offence{"LeavingNegativeStep",
                [](auto& r) { r.mutable_leaving()->set_step(-1); },
                "leaving.step"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SessionMessageTest, ACertificatesEndIsATimeOrNothing) {
  v1::SessionRequest request;
  const auto end_of = [&] {
    return std::get<BeatReceived>(*ParseSessionMessage(9, request, ""))
        .certificate_end;
  };
  v1::Beat& beat = *request.mutable_beat();
  EXPECT_FALSE(end_of().has_value());
  beat.mutable_certificate_expire_time()->set_seconds(1'700'000'000);
  EXPECT_EQ(end_of(), absl::FromUnixSeconds(1'700'000'000));
  for (const int64_t seconds : {int64_t{-1}, int64_t{1} << 40, INT64_MAX}) {
    beat.mutable_certificate_expire_time()->set_seconds(seconds);
    EXPECT_FALSE(end_of().has_value()) << seconds;
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
