#include "server/coordinator/rpc/job_spec_bench.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/proto_time.h"
#include "server/coordinator/rpc/job_spec_collective.h"

namespace ringmaster::coordinator {
namespace {

// As `ringctl bench` has them: more ranks would have sums that bfloat16 does not
// hold exactly.
constexpr int64_t kMinRanks = 2;
constexpr int64_t kMaxRanks = 128;
constexpr int64_t kMaxBytes = int64_t{1} << 30;
constexpr int kMaxSizes = 64;
constexpr int64_t kMaxIterations = 100'000;
constexpr absl::Duration kMaxTime = absl::Hours(1);

constexpr int64_t kFirstSize = int64_t{4} << 10;
constexpr int64_t kLastSize = int64_t{64} << 20;
constexpr int64_t kStep = 4;

int64_t ElementBytes(v1::BenchType type) {
  switch (type) {
    case v1::BENCH_TYPE_FLOAT64:
    case v1::BENCH_TYPE_INT64:
      return 8;
    case v1::BENCH_TYPE_FLOAT16:
    case v1::BENCH_TYPE_BFLOAT16:
      return 2;
    default:
      return 4;
  }
}

bool IsInteger(v1::BenchType type) {
  return type == v1::BENCH_TYPE_INT32 || type == v1::BENCH_TYPE_INT64;
}

void FillDefaults(v1::BenchProgram& bench) {
  if (bench.sizes().empty()) {
    for (int64_t size = kFirstSize; size <= kLastSize; size *= kStep)
      bench.add_sizes(size);
  }
  if (bench.type() == v1::BENCH_TYPE_UNSPECIFIED)
    bench.set_type(v1::BENCH_TYPE_FLOAT32);
  if (bench.reduction() == v1::BENCH_REDUCTION_UNSPECIFIED)
    bench.set_reduction(v1::BENCH_REDUCTION_SUM);
  if (bench.iterations() == 0) bench.set_iterations(20);
  if (!bench.has_warmup()) bench.set_warmup(5);
  if (!bench.has_time_per_size())
    *bench.mutable_time_per_size() = ToProto(absl::Seconds(2));
}

// The first size that is wrong stands for all.
void CheckSizes(const v1::BenchProgram& bench, SpecErrors& errors) {
  if (bench.sizes_size() > kMaxSizes) {
    errors.Add(absl::StrCat("bench.sizes must be at most ", kMaxSizes, ", got ",
                            bench.sizes_size()));
  }
  const int64_t element = ElementBytes(bench.type());
  int64_t before = 0;
  for (const int64_t size : bench.sizes()) {
    const char* wrong = nullptr;
    if (size < element || size > kMaxBytes) wrong = "must be within the bounds";
    if (size % element != 0) wrong = "must be whole elements";
    if (size <= before) wrong = "must ascend";
    if (wrong != nullptr) {
      errors.Add(absl::StrCat("bench.sizes ", wrong, " (", element, " to ",
                              kMaxBytes, " bytes, elements of ", element,
                              "), got ", size));
      return;
    }
    before = size;
  }
}

void CheckTypes(const v1::BenchProgram& bench, SpecErrors& errors) {
  errors.RequireKnown(
      v1::BenchType_IsValid(bench.type()), "bench.type",
      "float32, float64, float16, bfloat16, int32 or int64", bench.type());
  errors.RequireKnown(v1::BenchReduction_IsValid(bench.reduction()),
                      "bench.reduction", "sum, max, min or average",
                      bench.reduction());
  if (bench.reduction() == v1::BENCH_REDUCTION_AVERAGE &&
      IsInteger(bench.type())) {
    errors.Add("bench.reduction average takes a floating-point bench.type");
  }
  if (bench.collective().wire() != v1::COLLECTIVE_WIRE_UNSPECIFIED &&
      bench.type() != v1::BENCH_TYPE_FLOAT32) {
    errors.Add("bench.collective.wire is for bench.type float32 only");
  }
}

}  // namespace

void CheckBench(v1::BenchProgram& bench, const v1::WorkerRange& workers,
                SpecErrors& errors) {
  FillDefaults(bench);
  CheckTypes(bench, errors);
  CheckSizes(bench, errors);
  CheckCollective(bench.collective(), "bench.collective", errors);
  errors.RequireRange("bench.iterations", bench.iterations(), 1,
                      kMaxIterations);
  errors.RequireRange("bench.warmup", bench.warmup(), 0, kMaxIterations);
  const absl::Duration time = FromProto(bench.time_per_size());
  if (time <= absl::ZeroDuration() || time > kMaxTime) {
    errors.Add(absl::StrCat("bench.time_per_size must be above 0s and at most ",
                            absl::FormatDuration(kMaxTime), ", got ",
                            absl::FormatDuration(time)));
  }
  errors.RequireRange("workers.min of a benchmark", workers.min(), kMinRanks,
                      kMaxRanks);
  if (workers.max() != workers.min()) {
    errors.Add(absl::StrCat("workers.max of a benchmark must be workers.min (",
                            workers.min(), "), got ", workers.max()));
  }
}

}  // namespace ringmaster::coordinator
