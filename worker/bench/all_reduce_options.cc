#include "worker/bench/all_reduce_options.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "worker/bench/test_pattern.h"
#include "worker/collective/schedule.h"

namespace ringmaster {
namespace {

static_assert(kMaxAllReduceBenchRanks <= TestPattern::kMaxRanks);

bool IsFloatingPoint(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 ||
         dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

}  // namespace

absl::Status CheckAllReduceBench(const AllReduceBenchOptions& options) {
  if (options.ranks < 2 || options.ranks > kMaxAllReduceBenchRanks) {
    return absl::InvalidArgumentError(absl::StrCat("--ranks=", options.ranks,
                                                   ": expected 2 to ",
                                                   kMaxAllReduceBenchRanks));
  }
  return CheckAllReduceBench(options, Topology::OneHost(options.ranks));
}

absl::Status CheckAllReduceBench(const AllReduceBenchOptions& options,
                                 const Topology& topology) {
  const std::string dtype(DTypeName(options.dtype));
  if (options.wire.has_value() && options.dtype != DType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("--wire is for --dtype=float32, not ", dtype));
  }
  if (options.reduction == Reduction::kAverage &&
      !IsFloatingPoint(options.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--op=average takes a floating-point --dtype, not ", dtype));
  }
  if (options.algorithm != Algorithm::kAuto &&
      !IsUsable(options.algorithm, topology)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--algorithm=", AlgorithmName(options.algorithm),
                     ": not between ", topology.world_size(), " ranks of ",
                     topology.host_count() == 1
                         ? "one machine"
                         : absl::StrCat(topology.host_count(), " hosts")));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
