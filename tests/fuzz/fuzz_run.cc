#include "tests/fuzz/fuzz_run.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"

namespace ringmaster::fuzz {
namespace {

// Where the child stands; its parent reads it when the child is dead.
using Position = std::atomic<uint64_t>;
static_assert(Position::is_always_lock_free);

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
}

// The signal that ends an input that takes too long.
constexpr int kTooLong = SIGPROF;

// Starting it takes as long as the fastest parsers.
constexpr uint64_t kInputsPerTimer = 32;

void StartInputTimer() {
  itimerval timer = {};
  timer.it_value = absl::ToTimeval(kMaxInputTime);
  setitimer(ITIMER_PROF, &timer, nullptr);
}

// More is std::bad_alloc, which nobody catches.
void BoundMemory() {
#ifndef RINGMASTER_SANITIZED
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit = {};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur =
      pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + kMaxInputMemoryBytes;
  setrlimit(RLIMIT_AS, &limit);
#endif
}

// An exception is one that a parser should have caught, and ends it too.
[[noreturn]] void RunChild(const FuzzRun& run, const FuzzSource& source,
                           const FuzzTarget& target,
                           Position& position) noexcept {
  using Time = std::chrono::steady_clock;
  const Time::time_point start = Time::now();
  const auto limit = absl::ToChronoNanoseconds(run.limit);
  BoundMemory();
  for (uint64_t i = 0; i < run.iterations && Time::now() - start < limit; ++i) {
    position.store(run.first + i, std::memory_order_relaxed);
    if (i % kInputsPerTimer == 0) StartInputTimer();
    const Bytes input = source(run.seed, run.first + i);
    // Without room behind it, so that AddressSanitizer sees a read beyond.
    const auto exact = std::make_unique<uint8_t[]>(input.size());
    std::copy_n(reinterpret_cast<const uint8_t*>(input.data()), input.size(),
                exact.get());
    target(exact.get(), input.size());
  }
  _exit(0);
}

std::string EndOf(int status) {
  if (!WIFSIGNALED(status))
    return absl::StrCat("exit code ", WEXITSTATUS(status));
  if (WTERMSIG(status) == kTooLong)
    return absl::StrCat("more than ", absl::FormatDuration(kMaxInputTime),
                        " of processor time");
  return absl::StrCat("signal ", WTERMSIG(status));
}

absl::StatusOr<uint64_t> AwaitChild(pid_t child, const FuzzRun& run,
                                    const Position& position) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return SystemError("waitpid");
  }
  const uint64_t index = position.load(std::memory_order_relaxed);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return index - run.first + 1;
  return absl::InternalError(absl::StrCat(
      "input ", index, " of seed ", run.seed, " ended it with ", EndOf(status),
      "; once more: ", run.command, " --seed=", run.seed, " --first=", index,
      " --iterations=1"));
}

}  // namespace

absl::StatusOr<uint64_t> Fuzz(const FuzzRun& run, const FuzzSource& source,
                              const FuzzTarget& target) {
  void* const memory = mmap(nullptr, sizeof(Position), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return SystemError("mmap");
  auto* const position = new (memory) Position(run.first);
  const pid_t child = fork();
  if (child == 0) RunChild(run, source, target, *position);
  const absl::StatusOr<uint64_t> count =
      child < 0 ? SystemError("fork") : AwaitChild(child, run, *position);
  munmap(memory, sizeof(Position));
  return count;
}

}  // namespace ringmaster::fuzz
