#include "common/transport/striped_channel.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// poll(2) and epoll(7) have the same numbers for the same events.
static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
              EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP);

}  // namespace

absl::StatusOr<std::unique_ptr<Channel>> StripedChannel::Create(
    std::vector<std::unique_ptr<Channel>> channels) {
  RM_CHECK(!channels.empty(), "a channel has at least one stripe");
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("epoll_create1 for the connections to ",
                     channels.front()->peer(), " failed: ", strerror(errno)));
  }
  std::vector<Stripe> stripes;
  for (std::unique_ptr<Channel>& channel : channels)
    stripes.push_back({.channel = std::move(channel)});
  return std::unique_ptr<Channel>(
      new StripedChannel(std::move(stripes), std::move(epoll)));
}

absl::StatusOr<Channel::Progress> StripedChannel::TrySend(
    const OutgoingFrame& frame) {
  ASSIGN_OR_RETURN(const Progress progress,
                   stripes_[sending_].channel->TrySend(frame));
  if (progress == Progress::kDone) sending_ = (sending_ + 1) % stripes_.size();
  return progress;
}

absl::StatusOr<Channel::Progress> StripedChannel::TryReceive(
    const IncomingFrame& frame) {
  ASSIGN_OR_RETURN(const Progress progress,
                   stripes_[receiving_].channel->TryReceive(frame));
  if (progress == Progress::kDone)
    receiving_ = (receiving_ + 1) % stripes_.size();
  return progress;
}

bool StripedChannel::sends_taken() const {
  return std::all_of(
      stripes_.begin(), stripes_.end(),
      [](const Stripe& stripe) { return stripe.channel->sends_taken(); });
}

bool StripedChannel::BeginWait(bool for_send, bool for_receive,
                               pollfd& polled) {
  bool may_sleep = true;
  for (size_t i = 0; i < stripes_.size(); ++i) {
    Stripe& stripe = stripes_[i];
    // A peer that ends closes all, so one is enough to see it; and what it sent
    // before may still be unread on this one only.
    stripe.is_awaited = i == receiving_ || (for_send && i == sending_);
    stripe.polled = {-1, 0, 0};
    if (stripe.is_awaited) {
      may_sleep &= stripe.channel->BeginWait(for_send && i == sending_,
                                             for_receive && i == receiving_,
                                             stripe.polled);
    }
    Watch(i);
  }
  polled = {epoll_.get(), POLLIN, 0};
  return may_sleep;
}

void StripedChannel::Watch(size_t index) {
  Stripe& stripe = stripes_[index];
  const int fd = stripe.polled.fd;
  const short events = fd < 0 ? short{0} : stripe.polled.events;
  if (fd == stripe.watched_fd && events == stripe.watched_events) return;
  epoll_event event = {};
  event.events = static_cast<uint32_t>(events);
  event.data.u64 = index;
  if (stripe.watched_fd >= 0 && fd != stripe.watched_fd) {
    // It fails if the descriptor is closed by now: then nothing watches it.
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stripe.watched_fd, nullptr);
    stripe.watched_fd = -1;
  }
  if (fd >= 0) {
    const int operation =
        stripe.watched_fd == fd ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    RM_CHECK(epoll_ctl(epoll_.get(), operation, fd, &event) == 0,
             "a channel's descriptor can be watched");
  }
  stripe.watched_fd = fd;
  stripe.watched_events = events;
}

absl::Status StripedChannel::EndWait(const pollfd& polled) {
  if (polled.revents != 0) {
    std::array<epoll_event, 16> events;
    const int count = epoll_wait(epoll_.get(), events.data(),
                                 static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      stripes_[event.data.u64].polled.revents =
          static_cast<short>(event.events);
    }
  }
  absl::Status status;
  for (Stripe& stripe : stripes_) {
    if (stripe.is_awaited)
      status.Update(stripe.channel->EndWait(stripe.polled));
  }
  return status;
}

absl::Status StripedChannel::CheckPeer(MonotonicTime now) {
  for (Stripe& stripe : stripes_)
    RETURN_IF_ERROR(stripe.channel->CheckPeer(now));
  return absl::OkStatus();
}

void StripedChannel::CloseBecauseOf(int rank) {
  for (Stripe& stripe : stripes_) stripe.channel->CloseBecauseOf(rank);
}

}  // namespace ringmaster
