#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/job/program_rules.h"

namespace ringmaster {
namespace {

// As `ringctl bench` has them: more ranks would have sums that bfloat16 does not
// hold exactly.
constexpr int kMinRanks = 2;
constexpr int kMaxRanks = 128;
constexpr int64_t kMaxBytes = int64_t{1} << 30;

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

// The first size that is wrong stands for all.
void CheckSizes(const v1::BenchProgram& bench, SpecErrors& errors) {
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

void CheckBench(const v1::BenchProgram& bench, const v1::WorkerRange& workers,
                SpecErrors& errors) {
  CheckTypes(bench, errors);
  CheckSizes(bench, errors);
  if (workers.min() < kMinRanks) {
    errors.Add(absl::StrCat("workers.min of a benchmark must be at least ",
                            kMinRanks, ", got ", workers.min()));
  } else if (workers.min() > kMaxRanks) {
    errors.Add(absl::StrCat("workers.min of a benchmark must be at most ",
                            kMaxRanks, ", got ", workers.min()));
  }
  if (workers.max() != workers.min()) {
    errors.Add(absl::StrCat("workers.max of a benchmark must be workers.min (",
                            workers.min(), "), got ", workers.max()));
  }
}

}  // namespace ringmaster
