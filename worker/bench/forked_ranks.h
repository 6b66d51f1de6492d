// ForkedRanks runs a process for each rank and receives their messages.
//
// Guarantees: no rank outlives its owner, however that ends (PR_SET_PDEATHSIG
// of prctl(2)); a rank that dies is named with its signal, and the others are
// ended. Linux >= 5.3 only.
// Thread-compatible; start it before the process has other threads, on the
// thread that stays the longest: ranks die with it.
#ifndef RINGMASTER_WORKER_BENCH_FORKED_RANKS_H_
#define RINGMASTER_WORKER_BENCH_FORKED_RANKS_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

class ForkedRanks {
 public:
  static constexpr size_t kMaxMessageBytes = 4096;

  // Sends a message of at most kMaxMessageBytes to the parent.
  using Send = std::function<absl::Status(std::string_view message)>;
  // The work of a rank, in its own process, which then ends.
  using Body = std::function<absl::Status(int rank, const Send& send)>;

  // UNAVAILABLE: no process or descriptor could be had.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ForkedRanks>> Start(
      int count, const Body& body);
  // Kills and reaps those that are left.
  ~ForkedRanks();
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  // Waits for the next message of any rank; those of one rank come in order.
  // Returns nothing once all ranks have ended well. Afterwards, and after an
  // error, no rank is left.
  //   CANCELLED        `stop_fd` (-1: none) became readable
  //   UNAVAILABLE      a rank was killed by a signal: named
  //   a rank's status  with the rank in front; if a death soon turns out to be
  //                    behind it, that
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> Next(int stop_fd);

  // -1 once it has ended.
  [[nodiscard]] pid_t pid(int rank) const {
    return ranks_[static_cast<size_t>(rank)].pid;
  }

 private:
  struct Rank {
    pid_t pid = -1;
    UniqueFd pidfd;
  };

  ForkedRanks() = default;

  [[nodiscard]] absl::Status Fork(int rank, const Body& body);
  // Waits until one of the ranks has sent something or has ended; returns true
  // if `stop_fd` became readable instead.
  [[nodiscard]] bool Await(int stop_fd) const;
  // Takes a message that has arrived; notes the error of a rank.
  [[nodiscard]] std::optional<std::string> TakeMessage();
  void Reap(int rank);
  void NoteFailure(const absl::Status& status);
  void KillAll();
  [[nodiscard]] bool HasRanks() const;

  std::vector<Rank> ranks_;
  UniqueFd reader_;
  UniqueFd writer_;  // of the ranks
  absl::Status failure_;
  bool is_death_ = false;  // failure_ is a signal's
  MonotonicTime failure_deadline_ = MonotonicTime::InfiniteFuture();
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_FORKED_RANKS_H_
