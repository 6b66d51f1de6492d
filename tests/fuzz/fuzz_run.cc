#include "tests/fuzz/fuzz_run.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/wire_input.h"

namespace ringmaster::fuzz {
namespace {

// Where the child stands; its parent reads it when the child is dead.
using Position = std::atomic<uint64_t>;
static_assert(Position::is_always_lock_free);

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
}

[[noreturn]] void RunChild(const FuzzRun& run, FuzzTarget target,
                           Position& position) {
  for (uint64_t i = 0; i < run.iterations; ++i) {
    position.store(run.first + i, std::memory_order_relaxed);
    const Bytes input = InputOf(run.seed, run.first + i);
    // Without room behind it, so that AddressSanitizer sees a read beyond.
    const auto exact = std::make_unique<uint8_t[]>(input.size());
    std::memcpy(exact.get(), input.data(), input.size());
    target(exact.get(), input.size());
  }
  _exit(0);
}

absl::Status AwaitChild(pid_t child, const FuzzRun& run,
                        const Position& position) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return SystemError("waitpid");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  const uint64_t index = position.load(std::memory_order_relaxed);
  return absl::InternalError(absl::StrCat(
      "input ", index, " of seed ", run.seed, " ended it with ",
      WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                          : absl::StrCat("exit code ", WEXITSTATUS(status)),
      "; once more: bazel run //tests/fuzz:wire_fuzz -- --seed=", run.seed,
      " --first=", index, " --iterations=1"));
}

}  // namespace

absl::Status Fuzz(const FuzzRun& run, FuzzTarget target) {
  void* const memory = mmap(nullptr, sizeof(Position), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return SystemError("mmap");
  auto* const position = new (memory) Position(run.first);
  const pid_t child = fork();
  if (child == 0) RunChild(run, target, *position);
  const absl::Status status =
      child < 0 ? SystemError("fork") : AwaitChild(child, run, *position);
  munmap(memory, sizeof(Position));
  return status;
}

}  // namespace ringmaster::fuzz
