// A page of memory that the ranks of a benchmark share: a barrier that is the same for all candidates, a probe that says
// whether somebody else has the cores, and the ranks' times. Outside of what is measured; nothing here has a deadline,
// for the processes are the caller's to kill.
#ifndef RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_SHARED_PAGE_H_
#define RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_SHARED_PAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ringmaster {

inline constexpr int kMaxBenchRanks = 16;
inline constexpr int kMaxBenchCalls = 200;

struct alignas(64) Line {
  std::atomic<int> way;
};
// A line takes a longer or shorter way, by its address: a probe goes over some.
inline constexpr size_t kProbeLines = 16;

// All zero at the start.
struct SharedPage {
  alignas(64) std::atomic<int> arrived;
  alignas(64) std::atomic<int> barriers;
  std::array<Line, kProbeLines> ping;
  std::array<Line, kProbeLines> pong;
  alignas(64) std::atomic<int> probes;
  std::atomic<double> probe_ns;
  // By rank; seconds of each call.
  std::array<std::array<double, kMaxBenchCalls>, kMaxBenchRanks> seconds;
  // The measured fault, by rank.
  std::array<std::atomic<int64_t>, kMaxBenchRanks> completed;
  std::array<std::atomic<int64_t>, kMaxBenchRanks> unblocked_ns;
  std::array<std::atomic<int>, kMaxBenchRanks> blamed;
};

// Shared with the children of this process (`path` is ""), or with all that map the file at `path`, which is made where
// there is none. Never unmapped; null if the kernel refuses.
[[nodiscard]] SharedPage* MapSharedPage(const std::string& path);

// Returns once all `world_size` ranks have called it; looks, and lets others run.
void AwaitAll(SharedPage& page, int world_size);

// Nanoseconds for a cache line to go from rank 0 to rank 1: the best of some means over a thousand ways back and forth.
// Every rank must call it, and the others sleep meanwhile. 0 on one core.
[[nodiscard]] double ProbeNs(SharedPage& page, int rank, int world_size);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_SHARED_PAGE_H_
