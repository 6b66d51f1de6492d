#include "tests/bench/allreduce_vs_peers/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

int CallsFor(int64_t bytes) {
  return static_cast<int>(
      std::clamp<int64_t>((int64_t{32} << 20) / bytes, 3, kMaxBenchCalls));
}

// Element `i` of a rank's input in call `call`. Small integers: their sums are exact in any type and order. Elements of
// different places differ, that a result in the wrong place be seen.
float Input(size_t i, int rank, int call) {
  return static_cast<float>(static_cast<int>((i ^ (i >> 6) ^ (i >> 13)) & 15) +
                            call % 8 + rank);
}

float Sum(size_t i, int world_size, int call) {
  return Input(i, 0, call) * static_cast<float>(world_size) +
         static_cast<float>(world_size * (world_size - 1) / 2);
}

// A block at a time, without a way out in its midst: that is what compilers make fast.
absl::Status Check(const Candidate& candidate, std::span<const float> values,
                   int world_size, int call) {
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(values.size(), begin + kBlock);
    int wrong = 0;
    for (size_t i = begin; i < end; ++i)
      wrong += values[i] != Sum(i, world_size, call) ? 1 : 0;
    if (wrong > 0) {
      return absl::InternalError(absl::StrCat(
          candidate.name(), " gave ", wrong, " wrong sums of ",
          values.size() * sizeof(float), " bytes behind element ", begin));
    }
  }
  return absl::OkStatus();
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

absl::StatusOr<Call> Time(const BenchRank& self, Candidate& candidate,
                          std::span<float> values, int call) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = Input(i, self.rank, call);
  candidate.Load(values);
  const double cpu = CpuSeconds();
  AwaitAll(self.page, self.world_size);
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(candidate.AllReduce(values));
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  const double cpu_after = CpuSeconds();
  candidate.Store(values);
  RETURN_IF_ERROR(Check(candidate, values, self.world_size, call));
  return Call{took.count(), cpu_after - cpu};
}

absl::Status MeasureOne(const BenchRank& self, Candidate& candidate,
                        std::span<float> values) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  const int calls = CallsFor(bytes);
  candidate.Prepare(values);
  AwaitAll(self.page, self.world_size);
  for (int call = 0; call < 1 + calls / 20; ++call)
    RETURN_IF_ERROR(Time(self, candidate, values, call).status());
  double probe = ProbeNs(self.page, self.rank, self.world_size);
  double cpu_seconds = 0;
  auto& own = self.page.seconds[static_cast<size_t>(self.rank)];
  for (int call = 0; call < calls; ++call) {
    ASSIGN_OR_RETURN(const Call took, Time(self, candidate, values, call));
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
        static_cast<long long>(bytes), slowest[slowest.size() / 2],
        slowest.front(), cpu_seconds / calls, probe);
    std::fflush(stdout);
  }
  AwaitAll(self.page, self.world_size);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseSizes(
    const std::vector<std::string>& kib) {
  std::vector<int64_t> sizes;
  for (const std::string& text : kib) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(text, &size) || size < 1 || size > 1 << 20) {
      return absl::InvalidArgumentError(absl::StrCat(
          "size \"", text, "\": expected a number of KiB up to a GiB"));
    }
    sizes.push_back(size << 10);
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
