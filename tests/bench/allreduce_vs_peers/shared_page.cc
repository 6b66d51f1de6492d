#include "tests/bench/allreduce_vs_peers/shared_page.h"

#include <fcntl.h>
#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace ringmaster {
namespace {

constexpr int kWays = 1000;
constexpr int kTries = 5;
constexpr int kLooksBeforeYield = 2000;

// Until `is_there`. A process that is not running cannot answer, so the core is given away now and then.
template <typename IsThere>
void Look(IsThere is_there) {
  for (int looks = 1; !is_there(); ++looks) {
    if (looks % kLooksBeforeYield == 0) {
      sched_yield();
    } else {
      _mm_pause();
    }
  }
}

Line& Of(std::array<Line, kProbeLines>& lines, int way) {
  return lines[static_cast<size_t>(way) % kProbeLines];
}

void Serve(SharedPage& page) {
  for (int way = 1; way <= kTries * kWays; ++way) {
    Look([&] {
      return Of(page.ping, way).way.load(std::memory_order_acquire) == way;
    });
    Of(page.pong, way).way.store(way, std::memory_order_release);
  }
}

// The first try finds the other ranks still on their way to sleep.
double BestTry(SharedPage& page) {
  double best = std::numeric_limits<double>::max();
  int way = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (const int end = way + kWays; way < end;) {
      ++way;
      Of(page.ping, way).way.store(way, std::memory_order_release);
      Look([&] {
        return Of(page.pong, way).way.load(std::memory_order_acquire) == way;
      });
    }
    const std::chrono::duration<double, std::nano> took =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / (2 * kWays));
  }
  for (size_t i = 0; i < kProbeLines; ++i) {
    page.ping[i].way.store(0);
    page.pong[i].way.store(0);
  }
  return best;
}

}  // namespace

SharedPage* MapSharedPage(const std::string& path) {
  int fd = -1;
  if (!path.empty()) {
    fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(SharedPage)) != 0) return nullptr;
  }
  void* const memory = mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE,
                            MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
  if (fd >= 0) close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<SharedPage*>(memory);
}

void AwaitAll(SharedPage& page, int world_size) {
  const int before = page.barriers.load();
  if (page.arrived.fetch_add(1) + 1 == world_size) {
    page.arrived.store(0);
    page.barriers.store(before + 1);
    return;
  }
  Look([&] { return page.barriers.load() != before; });
}

double ProbeNs(SharedPage& page, int rank, int world_size) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return 0;
  const int before = page.probes.load();
  AwaitAll(page, world_size);
  if (rank == 0) {
    page.probe_ns.store(BestTry(page));
    page.probes.store(before + 1);
  } else if (rank == 1) {
    Serve(page);
  }
  while (page.probes.load() == before) {
    const timespec pause = {0, 200'000};
    nanosleep(&pause, nullptr);
  }
  const double probe = page.probe_ns.load();
  AwaitAll(page, world_size);
  return probe;
}

}  // namespace ringmaster
