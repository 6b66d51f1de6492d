#include "tests/bench/allreduce_vs_peers/dead_rank.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "tests/bench/allreduce_vs_peers/our_mesh.h"
#include "tests/bench/allreduce_vs_peers/shared_page.h"
#include "worker/bench/local_mesh.h"

namespace ringmaster {
namespace {

constexpr int64_t kBytes = 1 << 20;
constexpr int64_t kCallsBefore = 50;

// The same clock in all processes.
int64_t NowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Runs `run_rank` in `world_size` processes of their own, of which one may be
// killed: the others go on. Waits for all; how many did not exit with 0. Before
// that, `meanwhile` is given their process ids.
int ForkRanks(
    int world_size, const std::function<absl::Status(int rank)>& run_rank,
    const std::function<void(const std::vector<int>& pids)>& meanwhile) {
  std::fflush(stdout);
  std::vector<int> pids;
  for (int rank = 0; rank < world_size; ++rank) {
    const int pid = fork();
    if (pid > 0) pids.push_back(pid);
    if (pid != 0) continue;
    const absl::Status status = run_rank(rank);
    if (!status.ok())
      std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
    std::fflush(stdout);
    _exit(status.ok() ? 0 : 1);
  }
  meanwhile(pids);
  int failed = world_size - static_cast<int>(pids.size());
  for (const int pid : pids) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) ++failed;
  }
  return failed;
}

// Reduces until that fails.
absl::Status RunRank(SharedPage& page, const std::vector<Listener>& listeners,
                     int rank, Transport transport) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                   ConnectOurs(listeners, rank, 1, transport));
  std::vector<float> values(kBytes / sizeof(float));
  const auto place = static_cast<size_t>(rank);
  while (
      communicator->Run(AllReduceSum(BufferView::Of(values)), PatientDeadline())
          .ok()) {
    page.completed[place].fetch_add(1);
  }
  page.unblocked_ns[place].store(NowNs());
  page.blamed[place].store(communicator->progress().blamed_rank);
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureDeadRank(Transport transport, int world_size, int victim) {
  SharedPage* const page = MapSharedPage("");
  if (page == nullptr) return absl::UnavailableError("no memory for a page");
  ASSIGN_OR_RETURN(const std::vector<Listener> listeners,
                   ListenForRanks(world_size));
  int64_t killed_ns = 0;
  const int failed = ForkRanks(
      world_size,
      [&](int rank) { return RunRank(*page, listeners, rank, transport); },
      [&](const std::vector<int>& pids) {
        const auto place = static_cast<size_t>(victim);
        while (page->completed[place].load() < kCallsBefore) {
          const timespec pause = {0, 1'000'000};
          nanosleep(&pause, nullptr);
        }
        killed_ns = NowNs();
        kill(pids[place], SIGKILL);
      });
  if (failed != 1) {
    return absl::InternalError(
        absl::StrCat(failed, " ranks failed instead of the one killed"));
  }
  int64_t last_ns = killed_ns;
  int named = 0;
  for (size_t rank = 0; rank < static_cast<size_t>(world_size); ++rank) {
    if (static_cast<int>(rank) == victim) continue;
    last_ns = std::max(last_ns, page->unblocked_ns[rank].load());
    if (page->blamed[rank].load() == victim) ++named;
  }
  std::printf(
      "{\"dead_rank\": \"%s\", \"ranks\": %d, \"bytes\": %lld, "
      "\"slowest_ms\": %.3f, \"survivors\": %d, \"named\": %d}\n",
      ShortName(transport), world_size, static_cast<long long>(kBytes),
      static_cast<double>(last_ns - killed_ns) / 1e6, world_size - 1, named);
  return absl::OkStatus();
}

}  // namespace ringmaster
