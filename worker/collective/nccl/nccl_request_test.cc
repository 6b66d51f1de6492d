#include "worker/collective/nccl/nccl_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

// An all-reduce of `count` elements at an address that is never read.
CollectiveRequest Request(int64_t count, DType dtype = DType::kFloat32) {
  static char place;
  CollectiveRequest request;
  request.op = CollectiveOp::kAllReduce;
  request.buffer = {&place, count, dtype, MemoryKind::kCuda};
  return request;
}

std::string Refusal(const CollectiveRequest& request,
                    const NcclSettings& settings = {}) {
  const absl::Status status = CheckNcclRequest(request, 3, settings);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(NcclRequestTest, TakesEveryDTypeThatNcclHas) {
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
        DType::kInt32, DType::kInt64, DType::kUint8}) {
    EXPECT_TRUE(CheckNcclRequest(Request(7, dtype), 3, {}).ok());
  }
  EXPECT_TRUE(CheckNcclRequest(Request(0), 3, {}).ok());
}

TEST(NcclRequestTest, RefusesWhatNcclCannotDo) {
  CollectiveRequest request = Request(7);
  request.wire = DType::kBFloat16;
  EXPECT_THAT(Refusal(request), HasSubstr("NCCL sends a float32 buffer as "
                                          "float32, not as bfloat16"));
  request = Request(7, DType::kInt64);
  request.reduction = Reduction::kAverage;
  EXPECT_EQ(Refusal(request), "there is no average of int64");
  request = Request(7);
  request.op = CollectiveOp::kBarrier;
  EXPECT_THAT(Refusal(request), HasSubstr("barrier takes no buffer"));
  request.op = static_cast<CollectiveOp>(99);
  EXPECT_THAT(Refusal(request), HasSubstr("unknown takes no buffer"));
}

TEST(NcclRequestTest, RefusesBuffersAndRootsThatAreNone) {
  EXPECT_THAT(Refusal(Request(-1)), HasSubstr("-1 elements"));
  EXPECT_THAT(Refusal(Request(7, static_cast<DType>(99))),
              HasSubstr("dtype 99 does not exist"));
  CollectiveRequest request = Request(7);
  request.buffer.ptr = nullptr;
  EXPECT_THAT(Refusal(request), HasSubstr("7 elements at null"));
  request = Request(7);
  request.op = CollectiveOp::kBroadcast;
  request.root = 3;
  EXPECT_EQ(Refusal(request), "root 3 in a world of 3");
}

TEST(NcclRequestTest, LeavesTheAlgorithmToNccl) {
  CollectiveRequest request = Request(7);
  request.algorithm = Algorithm::kRing;
  EXPECT_THAT(Refusal(request), HasSubstr("ring cannot be had, but auto can"));
  EXPECT_TRUE(CheckNcclRequest(request, 3, {.ring = true}).ok());
  request.algorithm = Algorithm::kHalvingDoubling;
  EXPECT_THAT(
      Refusal(request, {.ring = true}),
      HasSubstr("halving_doubling cannot be had, but auto or ring can"));
}

TEST(NcclRequestTest, CountsBytesByTheory) {
  CollectiveRequest request = Request(300);
  EXPECT_EQ(TrafficByTheory(request, 0, 1).sent_bytes, 0);
  EXPECT_EQ(TrafficByTheory(request, 0, 2).sent_bytes, 1200);
  EXPECT_EQ(TrafficByTheory(request, 1, 3).sent_bytes, 1600);
  EXPECT_EQ(TrafficByTheory(request, 1, 3).received_bytes, 1600);
  request.op = CollectiveOp::kReduceScatter;
  EXPECT_EQ(TrafficByTheory(request, 1, 3).sent_bytes, 800);
  request.op = CollectiveOp::kBroadcast;
  request.root = 1;  // the chain is 1, 2, 0
  EXPECT_EQ(TrafficByTheory(request, 1, 3).sent_bytes, 1200);
  EXPECT_EQ(TrafficByTheory(request, 1, 3).received_bytes, 0);
  EXPECT_EQ(TrafficByTheory(request, 2, 3).sent_bytes, 1200);
  EXPECT_EQ(TrafficByTheory(request, 0, 3).sent_bytes, 0);
  EXPECT_EQ(TrafficByTheory(request, 0, 3).received_bytes, 1200);
}

TEST(NcclRequestTest, IsDescribedForMessages) {
  CollectiveRequest request = Request(300);
  EXPECT_EQ(DescribeRequest(request), "all_reduce of 300 float32");
  request.trace_label = 2;
  request.trace_step = 9;
  EXPECT_EQ(DescribeRequest(request),
            "all_reduce of 300 float32 (bucket 2 of step 9)");
}

}  // namespace
}  // namespace ringmaster
