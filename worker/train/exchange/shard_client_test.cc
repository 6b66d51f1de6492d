#include "worker/train/exchange/shard_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/parameter_server/testing/channel_pair.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr int kServerRank = 1;
constexpr int64_t kBuckets = 4;
constexpr int64_t kBucketElems = 64;

Plan MakePlan() {
  PlanOptions options;
  options.bucket_bytes = kBucketElems * 4;
  return Plan::Create("m",
                      {{"a", Shape({kBuckets * kBucketElems}),
                        Initializer::Constant(0)}},
                      options)
      .value();
}

// A worker and, on the test's thread, the server of its two shards.
class ShardClientTest : public testing::Test, private MessageLoop::Handler {
 protected:
  void Start(double clip_norm = 0) {
    ChannelPair pair =
        MakeChannelPair(Transport::kLoopback, {0}, {kServerRank});
    std::vector<MessagePeer> workers(1);
    workers[0] = {0, std::move(pair.first)};
    std::vector<MessagePeer> hosts(1);
    hosts[0] = {kServerRank, std::move(pair.second)};
    // The end of rank 0 is the client's.
    std::swap(workers[0].channel, hosts[0].channel);
    server_ = std::make_unique<MessageLoop>(
        MessageLoop::Options{.job = 7, .generation = 2, .rank = kServerRank},
        std::move(workers), server_cancel_, Clock::Real());
    ShardPlacements placements;
    placements.hosts = {{kServerRank, ""}};
    placements.shards = {{kServerRank, -1, -1}, {kServerRank, -1, kServerRank}};
    client_ = std::make_unique<ShardClient>(
        ShardClient::Options{
            .loop = {.job = 7, .generation = 2, .rank = 0},
            .plan = plan_,
            .layout = ShardLayout::Create(plan_, 2).value(),
            .placements = placements,
            .clip_norm = clip_norm,
            .on_answer =
                [this](int bucket, absl::Span<const float> parameters) {
                  answers_[bucket] = parameters;
                },
            .cancel = cancel_,
            .clock = Clock::Real(),
            .trace = trace_},
        std::move(hosts));
  }

  MonotonicTime Soon() const { return Clock::Real().Now() + absl::Seconds(30); }

  // Serves until `count` messages have come.
  void Receive(size_t count) {
    while (came_.size() < count)
      ASSERT_TRUE(server_->PollOnce(*this, Soon()).ok());
  }

  void Answer(const ShardMessage& question, float value) {
    ShardMessage values = question;
    values.op = ShardOp::kValues;
    values.rank = -1;
    values.value = 2;
    const std::vector<float> elems(kBucketElems, value);
    server_->SendCopy(
        0, values,
        {reinterpret_cast<const std::byte*>(elems.data()), kBucketElems});
  }

  void Flush() {
    while (!server_->IsFlushed(0)) (void)server_->PollOnce(*this, Soon());
  }

  const Plan plan_ = MakePlan();
  std::vector<float> gradients_ =
      std::vector<float>(kBuckets * kBucketElems, 3);
  std::vector<float> parameters_ = std::vector<float>(kBuckets * kBucketElems);
  CancelToken cancel_;
  CancelToken server_cancel_;
  Trace trace_;
  std::unique_ptr<MessageLoop> server_;
  std::unique_ptr<ShardClient> client_;
  std::vector<ShardMessage> came_;
  // The answers that the client reported, by bucket; to be read after Await.
  std::map<int, absl::Span<const float>> answers_;

 private:
  absl::StatusOr<std::optional<MessageSink>> OnMessage(
      int, const ShardMessage& message) override {
    sink_.resize(static_cast<size_t>(message.count) * sizeof(float));
    return MessageSink{sink_.data()};
  }
  absl::Status OnComplete(int, const ShardMessage& message) override {
    came_.push_back(message);
    return absl::OkStatus();
  }

  std::vector<std::byte> sink_;
};

TEST_F(ShardClientTest, BringsBackWhatTheServersMakeOfAPush) {
  Start();
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    client_->Push(bucket, /*step=*/5, absl::MakeSpan(gradients_),
                  absl::MakeSpan(parameters_));
  }
  Receive(kBuckets);
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    const ShardMessage& push = came_[static_cast<size_t>(bucket)];
    EXPECT_EQ(push.op, ShardOp::kPush);
    EXPECT_EQ(push.bucket, bucket);
    EXPECT_EQ(push.shard, bucket / 2);
    EXPECT_EQ(push.step, 5);
    Answer(push, static_cast<float>(bucket));
  }
  Flush();
  ASSERT_TRUE(client_->Await(Soon()).ok());
  for (size_t i = 0; i < parameters_.size(); ++i)
    EXPECT_EQ(parameters_[i], static_cast<float>(i / kBucketElems));
  EXPECT_EQ(client_->TakeUpdates().norm_squared, 2 * kBuckets);
  EXPECT_EQ(client_->completed(), kBuckets);
}

TEST_F(ShardClientTest, TellsOfEachAnswerToAPushBeforeAwaitReturns) {
  Start();
  client_->Push(2, /*step=*/5, absl::MakeSpan(gradients_),
                absl::MakeSpan(parameters_));
  Receive(1);
  Answer(came_[0], 4);
  Flush();
  ASSERT_TRUE(client_->Await(Soon()).ok());
  ASSERT_EQ(answers_.size(), 1);
  const absl::Span<const float> told = answers_.at(2);
  EXPECT_EQ(told.data(), parameters_.data() + 2 * kBucketElems);
  ASSERT_EQ(told.size(), kBucketElems);
  EXPECT_EQ(told[0], 4);
  // A pulled bucket is nobody's push.
  client_->Pull(StatePart::kParameters, /*step=*/5,
                absl::MakeSpan(parameters_));
  Receive(1 + kBuckets);
  for (size_t i = 1; i <= kBuckets; ++i) Answer(came_[i], 1);
  Flush();
  ASSERT_TRUE(client_->Await(Soon()).ok());
  EXPECT_EQ(answers_.size(), 1);
}

TEST_F(ShardClientTest, LoadsWhatNoHolderGives) {
  Start();
  EXPECT_TRUE(client_->has_to_load());
  client_->Load(StatePart::kFirstMoment, /*step=*/9,
                absl::MakeSpan(gradients_));
  Receive(2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(came_[i].op, ShardOp::kLoad);
    EXPECT_EQ(came_[i].part, StatePart::kFirstMoment);
    EXPECT_EQ(came_[i].shard, 0);
    EXPECT_EQ(came_[i].step, 9);
  }
}

TEST_F(ShardClientTest, ScalesByTheNormsOfAllShards) {
  Start(/*clip_norm=*/1);
  client_->Push(0, /*step=*/1, absl::MakeSpan(gradients_),
                absl::MakeSpan(parameters_));
  Receive(1);
  ShardMessage norm;
  norm.op = ShardOp::kNorm;
  norm.step = 1;
  for (const auto& [shard, value] : {std::pair(1, 9.0), std::pair(0, 7.0)}) {
    norm.shard = shard;
    norm.value = value;
    server_->Send(0, norm);
  }
  Receive(3);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(came_[i].op, ShardOp::kScale);
    EXPECT_EQ(came_[i].shard, static_cast<int>(i) - 1);
    EXPECT_EQ(came_[i].value, 0.25);
  }
}

TEST_F(ShardClientTest, RefusesWhatItDoesNotWaitFor) {
  Start();
  ShardMessage push;
  push.bucket = kBuckets;  // there is none
  Answer(push, 1);
  Flush();
  client_->Pull(StatePart::kParameters, 1, absl::MakeSpan(parameters_));
  const absl::Status status = client_->Await(Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 sent rank 0"));
  EXPECT_EQ(client_->blamed_rank(), kServerRank);
}

TEST_F(ShardClientTest, RefusesTheAnswerToAnotherStepsPush) {
  Start();
  client_->Push(0, /*step=*/5, absl::MakeSpan(gradients_),
                absl::MakeSpan(parameters_));
  Receive(1);
  came_[0].step = 4;
  Answer(came_[0], 1);
  Flush();
  const absl::Status status = client_->Await(Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 4"));
}

TEST_F(ShardClientTest, WhatHidesBehindOtherWorkIsNoWait) {
  Start();
  client_->Pull(StatePart::kParameters, 1, absl::MakeSpan(parameters_));
  Receive(kBuckets);
  EXPECT_EQ(client_->waiting_for_rank(), -1);
  EXPECT_EQ(client_->WaitedFor(kServerRank), absl::ZeroDuration());
  absl::Status status;
  std::thread training([&] { status = client_->Await(Soon()); });
  const MonotonicTime end = Soon();
  while (client_->waiting_for_rank() != kServerRank &&
         Clock::Real().Now() < end)
    std::this_thread::yield();
  EXPECT_EQ(client_->waiting_for_rank(), kServerRank);
  for (const ShardMessage& pull : came_) Answer(pull, 1);
  Flush();
  training.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(client_->waiting_for_rank(), -1);
}

TEST_F(ShardClientTest, NamesTheServerThatDoesNotTakeTheEnd) {
  Start();
  // More than the connection holds, so that the end stays behind it.
  for (int i = 0; i < 8000; ++i)
    client_->Load(StatePart::kParameters, 1, absl::MakeSpan(gradients_));
  client_->Finish(DoneKind::kStopped);
  const absl::Status status = client_->Await(Clock::Real().Now());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1, which holds shards, did not take the end"));
  EXPECT_EQ(client_->blamed_rank(), kServerRank);
}

TEST_F(ShardClientTest, NamesTheServerThatDoesNotAnswer) {
  Start();
  client_->Pull(StatePart::kParameters, 1, absl::MakeSpan(parameters_));
  const absl::Status status = client_->Await(Clock::Real().Now());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  EXPECT_EQ(client_->blamed_rank(), kServerRank);
}

TEST_F(ShardClientTest, NamesTheServerThatIsGone) {
  Start();
  client_->Pull(StatePart::kParameters, 1, absl::MakeSpan(parameters_));
  server_.reset();
  const absl::Status status = client_->Await(Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(client_->blamed_rank(), kServerRank);
}

TEST_F(ShardClientTest, ACancelledGenerationEndsAWait) {
  Start();
  client_->Pull(StatePart::kParameters, 1, absl::MakeSpan(parameters_));
  Receive(kBuckets);
  cancel_.Cancel("halted");
  const absl::Status status = client_->Await(Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_EQ(client_->blamed_rank(), -1);
}

TEST_F(ShardClientTest, AServerMayGoOnceItHasTheEnd) {
  Start();
  client_->Finish(DoneKind::kStopped);
  Receive(1);
  EXPECT_EQ(came_[0].op, ShardOp::kDone);
  EXPECT_EQ(came_[0].done, DoneKind::kStopped);
  server_.reset();
  EXPECT_TRUE(client_->Await(Soon()).ok());
}

}  // namespace
}  // namespace ringmaster
