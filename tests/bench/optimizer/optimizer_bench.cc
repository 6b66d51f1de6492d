// optimizer_bench: milliseconds per update of as many parameters as GPT-2 small
// has, beside what the machine's memory allows.
//
//   optimizer_bench [threads [rounds]]
//
// Every round runs each candidate once, in turn; a table of the best and the
// median follows. With 0 rounds it runs one round for each line on standard
// input and prints its milliseconds, for compare_torch.py. GB/s counts each
// byte that has to be read or written once.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock/clock.h"
#include "common/optimizer/norm.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"
#include "common/status/check.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/allocator.h"
#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {
namespace {

constexpr int64_t kElems = 124439808;
constexpr int64_t kGrain = int64_t{1} << 16;
constexpr int kDefaultRounds = 9;

struct Candidate {
  const char* name;
  int bytes_per_elem;
  std::function<void()> run;
  std::vector<double> millis = {};
};

// The four arenas of an optimizer, and what is done with them.
class Bench {
 public:
  explicit Bench(int threads) : pool_(threads) {
    for (size_t i = 0; i < arenas_.size(); ++i) {
      memory_[i] = std::move(*allocator_.Allocate(kElems * 4));
      arenas_[i] = {static_cast<float*>(memory_[i].data()), kElems};
    }
    for (size_t i = 0; i < kElems; ++i) {
      arenas_[0][i] = 0.01f * static_cast<float>(i % 97);
      arenas_[1][i] = 1e-3f * static_cast<float>(i % 89) - 0.03f;
    }
  }

  std::vector<Candidate> Candidates() {
    return {
        {"read", 4, [this] { Read(); }},
        {"memcpy", 8, [this] { Copy(); }},
        {"norm", 4, [this] { Norm(); }},
        {"adamw", 28, [this] { Update({.kind = "adamw"}); }},
        {"sgd", 20, [this] { Update({.kind = "sgd", .momentum = 0.9}); }},
    };
  }

 private:
  // By parts, as a training step sums them.
  void Norm() {
    pool_.ParallelFor(kElems, kGrain, [this](int64_t begin, int64_t end) {
      const double sum = SumOfSquares(absl::Span<const float>(
          arenas_[1].data() + begin, static_cast<size_t>(end - begin)));
      RM_CHECK(sum >= 0, "a sum of squares is not negative");
    });
  }

  // One array, read and nothing else done. AdamW reads four: that many times
  // this is what it takes at least.
  void Read() {
    pool_.ParallelFor(kElems, kGrain, [this](int64_t begin, int64_t end) {
      // One load of each line is enough to bring it in.
      float sum = 0;
      for (int64_t i = begin; i < end; i += 16)
        sum += arenas_[1][static_cast<size_t>(i)];
      volatile float kept = sum;
      static_cast<void>(kept);
    });
  }

  void Copy() {
    pool_.ParallelFor(kElems, kGrain, [this](int64_t begin, int64_t end) {
      std::memcpy(arenas_[3].data() + begin, arenas_[1].data() + begin,
                  static_cast<size_t>(end - begin) * sizeof(float));
    });
  }

  void Update(const OptimizerConfig& config) {
    ++step_;
    ApplyOptimizer<float>(
        pool_, config,
        {.step = step_, .learning_rate = 1e-6, .gradient_scale = 0.5},
        {arenas_[0], arenas_[1], arenas_[2], arenas_[4]});
  }

  HeapAllocator allocator_;
  ThreadPool pool_;
  // Parameters, gradients, the first moment, a copy, the second moment.
  std::array<Allocation, 5> memory_;
  std::array<absl::Span<float>, 5> arenas_;
  int64_t step_ = 0;
};

void RunRound(std::vector<Candidate>& candidates) {
  for (Candidate& candidate : candidates) {
    const MonotonicTime start = Clock::Real().Now();
    candidate.run();
    candidate.millis.push_back(
        absl::ToDoubleMilliseconds(Clock::Real().Now() - start));
  }
}

void PrintTable(std::vector<Candidate>& candidates) {
  absl::PrintF("%-8s %8s %8s %8s\n", "", "best ms", "median", "GB/s");
  for (Candidate& candidate : candidates) {
    std::vector<double>& millis = candidate.millis;
    std::sort(millis.begin(), millis.end());
    const double median = millis[millis.size() / 2];
    absl::PrintF(
        "%-8s %8.1f %8.1f %8.1f\n", candidate.name, millis.front(), median,
        static_cast<double>(kElems * candidate.bytes_per_elem) / median / 1e6);
  }
}

int Main(int threads, int rounds) {
  Bench bench(threads);
  std::vector<Candidate> candidates = bench.Candidates();
  if (rounds > 0) {
    absl::PrintF("%d parameters, %d threads, %s\n", kElems, threads,
                 std::string(CpuIsaName(CurrentIsa())));
    RunRound(candidates);  // warms up
    for (Candidate& candidate : candidates) candidate.millis.clear();
    for (int round = 0; round < rounds; ++round) RunRound(candidates);
    PrintTable(candidates);
    return 0;
  }
  while (std::getchar() == '\n') {
    RunRound(candidates);
    for (const Candidate& candidate : candidates)
      absl::PrintF("%s=%.3f ", candidate.name, candidate.millis.back());
    absl::PrintF("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : ringmaster::kDefaultRounds;
  if (argc > 3 || threads < 1 || rounds < 0) {
    std::fprintf(stderr, "usage: %s [threads [rounds]]\n", argv[0]);
    return 2;
  }
  return ringmaster::Main(threads, rounds);
}
