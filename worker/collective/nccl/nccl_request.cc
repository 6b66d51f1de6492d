#include "worker/collective/nccl/nccl_request.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

bool IsReduction(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduceScatter;
}

bool IsInteger(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 ||
         dtype == DType::kUint8;
}

absl::string_view Text(DType dtype) {
  const std::string_view name = DTypeName(dtype);
  return {name.data(), name.size()};
}

absl::Status CheckBuffer(const CollectiveRequest& request, int world_size) {
  const BufferView& buffer = request.buffer;
  if (buffer.count < 0 || (buffer.count > 0 && buffer.ptr == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer of ", buffer.count, " elements at ",
                     buffer.ptr == nullptr ? "null" : "an address"));
  }
  if (SizeOf(buffer.dtype) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dtype ", static_cast<int>(buffer.dtype), " does not exist"));
  }
  if (request.op == CollectiveOp::kBroadcast &&
      (request.root < 0 || request.root >= world_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("root ", request.root, " in a world of ", world_size));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNcclRequest(const CollectiveRequest& request, int world_size,
                              const NcclSettings& settings) {
  switch (request.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kBroadcast:
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("collective ", CollectiveOpName(request.op),
                       " takes no buffer in device memory"));
  }
  RETURN_IF_ERROR(CheckBuffer(request, world_size));
  const DType dtype = request.buffer.dtype;
  if (WireOf(request) != dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("NCCL sends a ", Text(dtype), " buffer as ", Text(dtype),
                     ", not as ", Text(WireOf(request)),
                     ": leave the job's wire type out, or train on CPUs"));
  }
  if (request.mirrors > 0) {
    return absl::InvalidArgumentError(
        "there are no mirrors of chunks in device memory");
  }
  if (IsReduction(request.op) && IsInteger(dtype) &&
      request.reduction == Reduction::kAverage) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no average of ", Text(dtype)));
  }
  const bool is_known =
      request.algorithm == Algorithm::kAuto ||
      (request.algorithm == Algorithm::kRing && settings.ring);
  if (is_known) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("NCCL chooses its algorithm once for a process: ",
                   AlgorithmName(request.algorithm), " cannot be had, but auto",
                   settings.ring ? " or ring can" : " can"));
}

NcclTraffic TrafficByTheory(const CollectiveRequest& request, int rank,
                            int world_size) {
  if (world_size <= 1) return {};
  const int64_t bytes = request.buffer.count * SizeOf(request.buffer.dtype);
  const int64_t others = bytes - bytes / world_size;  // K(N-1)/N, rounded up
  switch (request.op) {
    case CollectiveOp::kAllReduce:
      return {2 * others, 2 * others};
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
      return {others, others};
    case CollectiveOp::kBroadcast: {
      const bool is_last = (rank + 1) % world_size == request.root;
      return {is_last ? 0 : bytes, rank == request.root ? 0 : bytes};
    }
    case CollectiveOp::kBarrier:
      return {};
  }
  return {};
}

std::string DescribeRequest(const CollectiveRequest& request) {
  std::string text =
      absl::StrCat(CollectiveOpName(request.op), " of ", request.buffer.count,
                   " ", Text(request.buffer.dtype));
  if (request.trace_label >= 0) {
    absl::StrAppend(&text, " (bucket ", request.trace_label, " of step ",
                    request.trace_step, ")");
  }
  return text;
}

}  // namespace ringmaster
