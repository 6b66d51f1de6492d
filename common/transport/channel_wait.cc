#include "common/transport/channel_wait.h"

#include <sched.h>
#include <unistd.h>

#include <cstdint>

#include "common/transport/wait_io.h"

namespace ringmaster {
namespace {

// A look at the channels costs less than a yield: after some looks the core is
// offered to whoever else needs it, which may be the peer. Between two processes
// on one core that hands it over in 1.0 us, a futex(2) in 2.4 us and the peer's
// bell in 3.9 us (KVM guest, AMD EPYC); to wake a sleeper on an idle core takes 12
// us. So ranks that share cores yield, for as long as spin_ allows.
constexpr int kLooksBeforeYield = 32;

// Its own entries of polled_; those of the channels follow.
constexpr size_t kWake = 1;
constexpr size_t kOwnPolled = 2;

}  // namespace

bool ChannelWait::MayLook(MonotonicTime now) {
  if (!is_waiting_) {
    is_waiting_ = true;
    start_ = now;
    looks_ = 0;
  }
  if (now - start_ >= spin_.duration()) return false;
  if (++looks_ % kLooksBeforeYield == 0) sched_yield();
  return true;
}

ChannelWait::Result ChannelWait::Sleep(std::span<const AwaitedChannel> awaited,
                                       MonotonicTime now,
                                       MonotonicTime deadline) {
  if (!has_slept_) spin_.OnSleep();
  has_slept_ = true;
  Result result = CheckPeers(awaited, now);
  if (!result.status.ok()) return result;
  polled_.clear();
  polled_counts_.clear();
  polled_.push_back({cancel_.fd(), POLLIN, 0});
  polled_.push_back({wake_fd_, POLLIN, 0});
  bool may_sleep = true;
  for (const AwaitedChannel& each : awaited) {
    const size_t before = polled_.size();
    may_sleep &=
        each.channel->BeginWait(each.for_send, each.for_receive, polled_);
    polled_counts_.push_back(polled_.size() - before);
  }
  if (may_sleep) result.status = WaitIo(polled_, deadline - now);
  if (polled_[kWake].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken =
        read(wake_fd_, &count, sizeof(count));
  }
  std::span<const pollfd> polled = std::span(polled_).subspan(kOwnPolled);
  for (size_t i = 0; i < awaited.size(); ++i) {
    const absl::Status status =
        awaited[i].channel->EndWait(polled.first(polled_counts_[i]));
    polled = polled.subspan(polled_counts_[i]);
    if (!status.ok() && result.status.ok()) result = {status, awaited[i].rank};
  }
  if (cancel_.is_cancelled()) return {cancel_.status()};
  return result;
}

ChannelWait::Result ChannelWait::CheckPeers(
    std::span<const AwaitedChannel> awaited, MonotonicTime now) {
  for (const AwaitedChannel& each : awaited) {
    absl::Status status = each.channel->CheckPeer(now);
    if (!status.ok()) return {std::move(status), each.rank};
  }
  return {};
}

absl::Duration ChannelWait::End(MonotonicTime now) {
  if (!has_slept_) spin_.OnSuccess();
  Drop();
  return now - start_;
}

void ChannelWait::Drop() {
  is_waiting_ = false;
  has_slept_ = false;
}

}  // namespace ringmaster
