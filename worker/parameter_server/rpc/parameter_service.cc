#include "worker/parameter_server/rpc/parameter_service.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/grpc_status.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Elements are sent as they lie in memory.
static_assert(std::endian::native == std::endian::little);

constexpr auto kElemBytes = static_cast<int64_t>(sizeof(float));

constexpr char kGetShards[] = "/ringmaster.v1.ParameterService/GetShards";
constexpr char kPull[] = "/ringmaster.v1.ParameterService/Pull";
constexpr char kPush[] = "/ringmaster.v1.ParameterService/Push";

absl::StatusOr<ElemRange> RangeOf(const v1::ElementRange& range) {
  if (range.begin() < 0 || range.count() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("range: ", range.count(), " elements from ", range.begin(),
                     " on; expected at least one, from 0 on"));
  }
  if (range.count() > std::numeric_limits<int64_t>::max() - range.begin()) {
    return absl::InvalidArgumentError(
        absl::StrCat("range: ", range.count(), " elements from ", range.begin(),
                     " on end beyond what 64 bits can count"));
  }
  return ElemRange{range.begin(), range.count()};
}

// The gradient of one Push call, as its chunks come.
class PushedGradient {
 public:
  [[nodiscard]] absl::Status Begin(const v1::PushRequest& first) {
    ASSIGN_OR_RETURN(range_, RangeOf(first.range()));
    if (range_.count > ParameterServiceImpl::kMaxPushBytes / kElemBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "range: ", range_.count, " elements; at most ",
          ParameterServiceImpl::kMaxPushBytes / kElemBytes, " can be pushed"));
    }
    return absl::OkStatus();
  }

  [[nodiscard]] absl::Status Add(const v1::ElementChunk& chunk) {
    const std::string& bytes = chunk.elements();
    const auto here = static_cast<int64_t>(gradient_.size());
    const auto count = static_cast<int64_t>(bytes.size()) / kElemBytes;
    if (chunk.begin() != range_.begin + here || count < 1 ||
        bytes.size() % sizeof(float) != 0 || count > range_.count - here) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a chunk of ", bytes.size(), " bytes at element ", chunk.begin(),
          "; expected the next of the ", range_.count - here, " elements from ",
          range_.begin + here, " on"));
    }
    if (XXH3_64bits(bytes.data(), bytes.size()) != chunk.checksum()) {
      return absl::DataLossError(absl::StrCat("the chunk at element ",
                                              chunk.begin(),
                                              " does not match its checksum"));
    }
    gradient_.reserve(static_cast<size_t>(range_.count));  // no more, either
    gradient_.resize(gradient_.size() + static_cast<size_t>(count));
    std::memcpy(gradient_.data() + here, bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  [[nodiscard]] absl::Status CheckComplete() const {
    const auto here = static_cast<int64_t>(gradient_.size());
    if (range_.count > 0 && here == range_.count) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the call ended after ", here, " of ", range_.count, " elements"));
  }

  [[nodiscard]] const ElemRange& range() const { return range_; }
  [[nodiscard]] std::vector<float> Take() { return std::move(gradient_); }

 private:
  ElemRange range_;
  std::vector<float> gradient_;
};

// What `ranges` take in memory.
int64_t BytesOf(const std::vector<ElemRange>& ranges) {
  int64_t bytes = 0;
  for (const ElemRange& range : ranges) bytes += range.count * kElemBytes;
  return bytes;
}

// OK iff all of `range` is in `shards`, which do not overlap.
absl::Status CheckIsHere(const ElemRange& range, const StoredShards& shards) {
  int64_t here = 0;
  for (const ElemRange& shard : shards.ranges) {
    here += std::max<int64_t>(0, std::min(range.end(), shard.end()) -
                                     std::max(range.begin, shard.begin));
  }
  if (here == range.count) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("range: of ", range.count,
                                            " elements from ", range.begin,
                                            " on, ", here, " are here"));
}

absl::StatusOr<v1::PushRequest> Receive(
    const grpc::ServerContext& context,
    grpc::ServerReader<v1::PushRequest>& reader, CallLimits::Call& call,
    PushedGradient& gradient) {
  v1::PushRequest first;
  if (!reader.Read(&first)) {
    return absl::InvalidArgumentError("the call has no message");
  }
  RETURN_IF_ERROR(gradient.Begin(first));
  RETURN_IF_ERROR(call.Hold(BytesOf({gradient.range()})));
  v1::PushRequest next = first;
  do {
    if (next.has_chunk()) RETURN_IF_ERROR(gradient.Add(next.chunk()));
  } while (reader.Read(&next));
  // A call that was cut ends like one whose client has sent all.
  if (call.is_cut() || context.IsCancelled())
    return absl::CancelledError("the call was cut");
  RETURN_IF_ERROR(gradient.CheckComplete());
  return first;
}

}  // namespace

MonotonicTime ParameterServiceImpl::DeadlineOf(
    const grpc::ServerContext& context) const {
  const absl::Duration left =
      absl::FromChrono(context.deadline() - std::chrono::system_clock::now());
  return clock_.Now() + std::min(left, kCallTimeout);
}

grpc::Status ParameterServiceImpl::GetShards(grpc::ServerContext* context,
                                             const v1::GetShardsRequest*,
                                             v1::GetShardsResponse* response) {
  const auto call = limits_.Begin(kGetShards, *context);
  if (!call.ok()) return ToGrpcStatus(call.status());
  const absl::StatusOr<StoredShards> shards =
      store_.shards(DeadlineOf(*context));
  if (!shards.ok()) return ToGrpcStatus(shards.status());
  response->set_job_id(shards->job_id);
  response->set_generation(shards->generation);
  response->set_step(shards->step);
  for (const ElemRange& range : shards->ranges) {
    v1::ElementRange& proto = *response->add_ranges();
    proto.set_begin(range.begin);
    proto.set_count(range.count);
  }
  return grpc::Status::OK;
}

absl::StatusOr<std::vector<ElemRange>> ParameterServiceImpl::RangesOf(
    const v1::PullRequest& request, MonotonicTime deadline) {
  std::vector<ElemRange> ranges;
  if (request.has_range()) {
    ASSIGN_OR_RETURN(const ElemRange range, RangeOf(request.range()));
    ranges.push_back(range);
  }
  ASSIGN_OR_RETURN(StoredShards shards, store_.shards(deadline));
  if (ranges.empty()) return std::move(shards.ranges);
  RETURN_IF_ERROR(CheckIsHere(ranges.front(), shards));
  return ranges;
}

grpc::Status ParameterServiceImpl::Pull(
    grpc::ServerContext* context, const v1::PullRequest* request,
    grpc::ServerWriter<v1::PullResponse>* writer) {
  const auto call = limits_.Begin(kPull, *context);
  if (!call.ok()) return ToGrpcStatus(call.status());
  const auto ranges = RangesOf(*request, DeadlineOf(*context));
  if (!ranges.ok()) return ToGrpcStatus(ranges.status());
  if (const absl::Status held = (*call)->Hold(BytesOf(*ranges)); !held.ok())
    return ToGrpcStatus(held);
  const absl::StatusOr<StoredElements> stored =
      store_.Read(*ranges, DeadlineOf(*context));
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  const float* next = stored->elements.data();
  v1::PullResponse response;
  response.set_step(stored->step);
  for (const ElemRange& range : *ranges) {
    for (int64_t done = 0; done < range.count;) {
      const int64_t count =
          std::min(range.count - done, kMaxChunkBytes / kElemBytes);
      const auto bytes = static_cast<size_t>(count * kElemBytes);
      v1::ElementChunk& chunk = *response.mutable_chunk();
      chunk.set_begin(range.begin + done);
      chunk.set_elements(next, bytes);
      chunk.set_checksum(XXH3_64bits(next, bytes));
      if (!writer->Write(response)) return grpc::Status::OK;  // cancelled
      next += count;
      done += count;
    }
  }
  return grpc::Status::OK;
}

grpc::Status ParameterServiceImpl::Push(
    grpc::ServerContext* context, grpc::ServerReader<v1::PushRequest>* reader,
    v1::PushResponse* response) {
  const auto call = limits_.Begin(kPush, *context);
  if (!call.ok()) return ToGrpcStatus(call.status());
  PushedGradient gradient;
  const absl::StatusOr<v1::PushRequest> first =
      Receive(*context, *reader, **call, gradient);
  if (!first.ok()) return ToGrpcStatus(first.status());
  const absl::StatusOr<int64_t> step =
      store_.Push(first->job_id(), first->generation(), gradient.range().begin,
                  gradient.Take(), DeadlineOf(*context));
  if (!step.ok()) return ToGrpcStatus(step.status());
  response->set_step(*step);
  return grpc::Status::OK;
}

}  // namespace ringmaster
