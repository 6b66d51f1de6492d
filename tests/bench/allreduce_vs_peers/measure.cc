#include "tests/bench/allreduce_vs_peers/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/bench/figures.h"
#include "worker/bench/test_pattern.h"

namespace ringmaster {
namespace {

int CallsFor(int64_t bytes) {
  return static_cast<int>(
      std::clamp<int64_t>((int64_t{32} << 20) / bytes, 3, kMaxBenchCalls));
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Call {
  double seconds = 0;
  double cpu_seconds = 0;
};

// Each call starts elsewhere in the pattern, so that results left over from the
// previous call are detected.
absl::StatusOr<Call> Time(const BenchRank& self, const TestPattern& pattern,
                          Candidate& candidate, std::span<float> values,
                          int call) {
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  const auto count = static_cast<int64_t>(values.size());
  pattern.Fill(bytes, count, call);
  candidate.Load(values);
  const double cpu = CpuSeconds();
  AwaitAll(self.page, self.world_size);
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(candidate.AllReduce(values));
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  const double cpu_after = CpuSeconds();
  candidate.Store(values);
  if (const int64_t wrong = pattern.CountWrong(bytes, count, call); wrong > 0) {
    return absl::InternalError(absl::StrCat(candidate.name(), " gave ", wrong,
                                            " wrong sums of ", count));
  }
  return Call{took.count(), cpu_after - cpu};
}

absl::Status MeasureOne(const BenchRank& self, Candidate& candidate,
                        std::span<float> values) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  const int calls = CallsFor(bytes);
  const TestPattern pattern(DType::kFloat32, Reduction::kSum, self.world_size,
                            self.rank);
  candidate.Prepare(values);
  AwaitAll(self.page, self.world_size);
  for (int call = 0; call < 1 + calls / 20; ++call)
    RETURN_IF_ERROR(Time(self, pattern, candidate, values, call).status());
  double probe = ProbeNs(self.page, self.rank, self.world_size);
  double cpu_seconds = 0;
  auto& own = self.page.seconds[static_cast<size_t>(self.rank)];
  for (int call = 0; call < calls; ++call) {
    ASSIGN_OR_RETURN(const Call took,
                     Time(self, pattern, candidate, values, call));
    own[static_cast<size_t>(call)] = took.seconds;
    cpu_seconds += took.cpu_seconds;
  }
  probe = std::max(probe, ProbeNs(self.page, self.rank, self.world_size));
  if (self.rank == 0) {
    std::vector<double> slowest(own.begin(), own.begin() + calls);
    for (size_t rank = 1; rank < static_cast<size_t>(self.world_size); ++rank) {
      for (size_t call = 0; call < slowest.size(); ++call)
        slowest[call] = std::max(slowest[call], self.page.seconds[rank][call]);
    }
    std::sort(slowest.begin(), slowest.end());
    std::printf(
        "{\"name\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"seconds\": %.9f, "
        "\"best\": %.9f, \"cpu_seconds\": %.9f, \"probe_ns\": %.1f}\n",
        candidate.name().c_str(), self.world_size,
        static_cast<long long>(bytes), Percentile(slowest, 0.5),
        slowest.front(), cpu_seconds / calls, probe);
    std::fflush(stdout);
  }
  AwaitAll(self.page, self.world_size);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> SizesOf(
    const std::vector<std::string>& texts) {
  std::vector<int64_t> sizes;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const int64_t size, ParseSize(text));
    sizes.push_back(size);
  }
  return sizes;
}

absl::Status MeasureAll(const BenchRank& self, const Candidates& candidates,
                        const std::vector<int64_t>& sizes) {
  for (const int64_t bytes : sizes) {
    std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float));
    for (const auto& candidate : candidates) {
      if (bytes > candidate->max_bytes()) continue;
      RETURN_IF_ERROR(
          MeasureOne(self, *candidate, candidate->BufferFor(values)));
    }
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
