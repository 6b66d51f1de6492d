#include "worker/parameter_server/rpc/parameter_service.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/logging/testing/log_capture.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Holds elements 100 to 399 and 1,000 to 601,000, each its own index, and
// remembers what is pushed.
class FakeStore final : public ParameterStore {
 public:
  absl::StatusOr<StoredShards> shards(MonotonicTime) override {
    return StoredShards{"j-1", 7, 12, {{100, 300}, {1000, 600'000}}};
  }
  absl::StatusOr<StoredElements> Read(std::vector<ElemRange> ranges,
                                      MonotonicTime) override {
    StoredElements stored{12, {}};
    for (const ElemRange& range : ranges) {
      // As it asks only for what shards() tells.
      EXPECT_LE(range.count, 600'000);
      for (int64_t i = range.begin; i < range.end(); ++i)
        stored.elements.push_back(static_cast<float>(i));
    }
    return stored;
  }
  absl::StatusOr<int64_t> Push(const std::string& job_id, int64_t generation,
                               int64_t begin, std::vector<float> gradient,
                               MonotonicTime) override {
    if (job_id != "j-1") return absl::FailedPreconditionError("no such job");
    if (generation != 7) return absl::AbortedError("stale");
    pushed_begin = begin;
    pushed = std::move(gradient);
    return 12;
  }

  int64_t pushed_begin = -1;
  std::vector<float> pushed;
};

class ParameterServiceTest : public ::testing::Test {
 protected:
  ParameterServiceTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::ParameterService::NewStub(
        server_->InProcessChannel(grpc::ChannelArguments()));
  }

  static v1::PushRequest First(int64_t begin, int64_t count) {
    v1::PushRequest request;
    request.set_job_id("j-1");
    request.set_generation(7);
    request.mutable_range()->set_begin(begin);
    request.mutable_range()->set_count(count);
    return request;
  }

  static v1::PushRequest Chunk(int64_t begin, const std::vector<float>& elems) {
    v1::PushRequest request;
    v1::ElementChunk& chunk = *request.mutable_chunk();
    chunk.set_begin(begin);
    chunk.set_elements(elems.data(), elems.size() * sizeof(float));
    chunk.set_checksum(XXH3_64bits(elems.data(), elems.size() * sizeof(float)));
    return request;
  }

  grpc::Status Push(const std::vector<v1::PushRequest>& requests) {
    grpc::ClientContext context;
    const auto writer = stub_->Push(&context, &response_);
    for (const v1::PushRequest& request : requests) {
      if (!writer->Write(request)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  FakeStore store_;
  ParameterServiceImpl service_{store_, Clock::Real()};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ParameterService::Stub> stub_;
  v1::PushResponse response_;
};

TEST_F(ParameterServiceTest, TellsWhichElementsAreHere) {
  grpc::ClientContext context;
  v1::GetShardsResponse response;
  ASSERT_TRUE(stub_->GetShards(&context, {}, &response).ok());
  EXPECT_EQ(response.job_id(), "j-1");
  EXPECT_EQ(response.generation(), 7);
  EXPECT_EQ(response.step(), 12);
  ASSERT_EQ(response.ranges_size(), 2);
  EXPECT_EQ(response.ranges(1).begin(), 1000);
  EXPECT_EQ(response.ranges(1).count(), 600'000);
}

TEST_F(ParameterServiceTest, AllElementsComeInChecksummedChunks) {
  grpc::ClientContext context;
  const auto reader = stub_->Pull(&context, {});
  v1::PullResponse response;
  std::vector<int64_t> begins;
  int64_t count = 0;
  while (reader->Read(&response)) {
    EXPECT_EQ(response.step(), 12);
    const std::string& bytes = response.chunk().elements();
    EXPECT_LE(static_cast<int64_t>(bytes.size()),
              ParameterServiceImpl::kMaxChunkBytes);
    EXPECT_EQ(response.chunk().checksum(),
              XXH3_64bits(bytes.data(), bytes.size()));
    begins.push_back(response.chunk().begin());
    float first = 0;
    std::memcpy(&first, bytes.data(), sizeof(first));
    EXPECT_EQ(first, static_cast<float>(begins.back()));
    count += static_cast<int64_t>(bytes.size() / sizeof(float));
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(begins, ElementsAre(100, 1000, 263'144, 525'288));
  EXPECT_EQ(count, 600'300);
}

TEST_F(ParameterServiceTest, ARangeThatIsNotHereIsRefused) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const auto& [begin, count, code] :
       std::vector<std::tuple<int64_t, int64_t, grpc::StatusCode>>{
           {0, 10, grpc::StatusCode::OUT_OF_RANGE},
           {-1, 10, grpc::StatusCode::INVALID_ARGUMENT},
           {100, 0, grpc::StatusCode::INVALID_ARGUMENT},
           {100, 301, grpc::StatusCode::OUT_OF_RANGE},
           {100, kMax - 100, grpc::StatusCode::OUT_OF_RANGE},
           {100, kMax - 99, grpc::StatusCode::INVALID_ARGUMENT},
           {kMax, kMax, grpc::StatusCode::INVALID_ARGUMENT}}) {
    grpc::ClientContext context;
    v1::PullRequest request;
    request.mutable_range()->set_begin(begin);
    request.mutable_range()->set_count(count);
    const auto reader = stub_->Pull(&context, request);
    v1::PullResponse response;
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_EQ(reader->Finish().error_code(), code);
  }
}

TEST_F(ParameterServiceTest, AGradientArrivesWhole) {
  std::vector<float> gradient(10);
  std::iota(gradient.begin(), gradient.end(), 1.0f);
  const std::vector<float> head(gradient.begin(), gradient.begin() + 4);
  const std::vector<float> tail(gradient.begin() + 4, gradient.end());
  const grpc::Status status =
      Push({First(100, 10), Chunk(100, head), Chunk(104, tail)});
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response_.step(), 12);
  EXPECT_EQ(store_.pushed_begin, 100);
  EXPECT_EQ(store_.pushed, gradient);
}

TEST_F(ParameterServiceTest, AGradientThatIsNotWholeChangesNothing) {
  const std::vector<float> four(4, 1.0f);
  v1::PushRequest damaged = Chunk(100, four);
  damaged.mutable_chunk()->set_checksum(damaged.chunk().checksum() + 1);
  v1::PushRequest odd = Chunk(100, four);
  odd.mutable_chunk()->mutable_elements()->push_back('x');
  const struct {
    std::vector<v1::PushRequest> requests;
    grpc::StatusCode code;
    std::string text;
  } cases[] = {
      {{}, grpc::StatusCode::INVALID_ARGUMENT, "no message"},
      {{First(100, 8), Chunk(100, four)},
       grpc::StatusCode::INVALID_ARGUMENT,
       "ended after 4 of 8"},
      {{First(100, 4), Chunk(104, four)},
       grpc::StatusCode::INVALID_ARGUMENT,
       "expected the next"},
      {{First(100, 2), Chunk(100, four)},
       grpc::StatusCode::INVALID_ARGUMENT,
       "expected the next"},
      {{First(100, 4), odd}, grpc::StatusCode::INVALID_ARGUMENT, "17 bytes"},
      {{First(100, 4), damaged}, grpc::StatusCode::DATA_LOSS, "checksum"},
      {{First(100, int64_t{1} << 40)},
       grpc::StatusCode::INVALID_ARGUMENT,
       "at most"},
      {{Chunk(100, four)}, grpc::StatusCode::INVALID_ARGUMENT, "range"},
  };
  for (const auto& bad : cases) {
    const grpc::Status status = Push(bad.requests);
    EXPECT_EQ(status.error_code(), bad.code) << bad.text;
    EXPECT_THAT(status.error_message(), HasSubstr(bad.text));
    EXPECT_EQ(store_.pushed_begin, -1);
  }
}

TEST_F(ParameterServiceTest, WhatTheStoreRefusesIsTold) {
  v1::PushRequest stale = First(100, 1);
  stale.set_generation(6);
  EXPECT_EQ(Push({stale, Chunk(100, {1})}).error_code(),
            grpc::StatusCode::ABORTED);
  v1::PushRequest other = First(100, 1);
  other.set_job_id("j-2");
  EXPECT_EQ(Push({other, Chunk(100, {1})}).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

// The service with other limits, and a client in this process.
struct LimitedServer {
  explicit LimitedServer(const CallLimits::Values& limits)
      : service(store, Clock::Real(), limits) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    stub = v1::ParameterService::NewStub(
        server->InProcessChannel(grpc::ChannelArguments()));
  }

  FakeStore store;
  ParameterServiceImpl service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<v1::ParameterService::Stub> stub;
};

// Whoever sends or reads nothing would hold a thread for ever.
TEST(ParameterServiceLimitsTest, ACallThatTakesTooLongIsCut) {
  LogCapture log;
  LimitedServer limited({.time = absl::Milliseconds(100)});
  grpc::ClientContext context;
  v1::PushResponse response;
  const auto writer = limited.stub->Push(&context, &response);
  v1::PushRequest first;
  first.mutable_range()->set_begin(100);
  first.mutable_range()->set_count(10);
  ASSERT_TRUE(writer->Write(first));
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(log.Contains(
      "W parameters.call_cut method=/ringmaster.v1.ParameterService/Push "
      "address=unix message=\"it took more than 100ms\""));
}

// It ends like one whose client has sent all.
TEST(ParameterServiceLimitsTest, AWholeGradientOfACallThatIsCutChangesNothing) {
  LimitedServer limited({.time = absl::Milliseconds(100)});
  grpc::ClientContext context;
  v1::PushResponse response;
  const auto writer = limited.stub->Push(&context, &response);
  v1::PushRequest all;
  all.set_job_id("j-1");
  all.set_generation(7);
  all.mutable_range()->set_begin(100);
  all.mutable_range()->set_count(1);
  const float one = 1;
  all.mutable_chunk()->set_begin(100);
  all.mutable_chunk()->set_elements(&one, sizeof(one));
  all.mutable_chunk()->set_checksum(XXH3_64bits(&one, sizeof(one)));
  ASSERT_TRUE(writer->Write(all));
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  limited.server->Shutdown();  // waits for the handler
  EXPECT_EQ(limited.store.pushed_begin, -1);
}

TEST(ParameterServiceLimitsTest, CallsBeyondTheLimitsAreRefused) {
  LimitedServer limited({.calls = 0});
  const auto expect_refused = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  };
  grpc::ClientContext shards_context;
  v1::GetShardsResponse shards;
  expect_refused(limited.stub->GetShards(&shards_context, {}, &shards));
  grpc::ClientContext pull_context;
  expect_refused(limited.stub->Pull(&pull_context, {})->Finish());
  grpc::ClientContext push_context;
  v1::PushResponse pushed;
  expect_refused(limited.stub->Push(&push_context, &pushed)->Finish());
}

}  // namespace
}  // namespace ringmaster
