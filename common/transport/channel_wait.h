// ChannelWait lets a thread wait for several channels at once when nothing
// moves on any of them: it spins for some microseconds, then sleeps in poll(2).
//
// Thread-safety: thread-compatible.
// Example:
//   while (!is_done) {
//     if (MoveAll()) {
//       if (wait.is_waiting()) waited += wait.End(clock.Now());
//     } else if (const MonotonicTime now = clock.Now(); !wait.MayLook(now)) {
//       const ChannelWait::Result slept = wait.Sleep(awaited, now, deadline);
//       ...
//     }
//   }
#ifndef RINGMASTER_COMMON_TRANSPORT_CHANNEL_WAIT_H_
#define RINGMASTER_COMMON_TRANSPORT_CHANNEL_WAIT_H_

#include <poll.h>

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"
#include "common/transport/spin_budget.h"

namespace ringmaster {

// A channel to wait for, and the direction: as in Channel::BeginWait.
struct AwaitedChannel {
  Channel* channel = nullptr;
  int rank = 0;  // of the peer
  bool for_send = false;
  bool for_receive = false;
};

class ChannelWait {
 public:
  // `cancel` must outlive it. A sleep also ends once `wake_fd`, an eventfd(2),
  // is readable, and reads it then; -1: there is none.
  explicit ChannelWait(const CancelToken& cancel, int wake_fd = -1)
      : cancel_(cancel), wake_fd_(wake_fd) {}

  // Called when nothing has moved: returns true if the thread is to look again
  // at once. Begins a wait if there is none.
  [[nodiscard]] bool MayLook(MonotonicTime now);

  // The end of a sleep, and the peer that an error is about; -1: none.
  struct Result {
    absl::Status status;
    int rank = -1;
  };
  // Sleeps until one of `awaited` may go on, or for a while.
  //   UNAVAILABLE, FAILED_PRECONDITION  Channel::EndWait, CheckPeer
  //   `cancel`'s status                 it was cancelled
  [[nodiscard]] Result Sleep(std::span<const AwaitedChannel> awaited,
                             MonotonicTime now, MonotonicTime deadline);

  // Ends the wait because something has moved; returns its duration. Requires
  // is_waiting.
  absl::Duration End(MonotonicTime now);
  // Forgets the wait.
  void Drop();
  [[nodiscard]] bool is_waiting() const { return is_waiting_; }

 private:
  [[nodiscard]] static Result CheckPeers(
      std::span<const AwaitedChannel> awaited, MonotonicTime now);

  const CancelToken& cancel_;
  const int wake_fd_;
  SpinBudget spin_;
  MonotonicTime start_;
  bool is_waiting_ = false;  // looking or sleeping since start_
  bool has_slept_ = false;
  int looks_ = 0;
  std::vector<pollfd> polled_;
  std::vector<size_t> polled_counts_;  // of each awaited channel
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_CHANNEL_WAIT_H_
