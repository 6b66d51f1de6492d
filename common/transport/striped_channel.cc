#include "common/transport/striped_channel.h"

#include <algorithm>
#include <utility>

#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {

StripedChannel::StripedChannel(std::vector<std::unique_ptr<Channel>> channels) {
  RM_CHECK(!channels.empty(), "a channel has at least one stripe");
  for (std::unique_ptr<Channel>& channel : channels)
    stripes_.push_back({.channel = std::move(channel)});
}

absl::StatusOr<Channel::Progress> StripedChannel::TrySend(
    const OutgoingFrame& frame) {
  OutgoingFrame alone = frame;
  // The next one goes another way, where nothing would be kept for it.
  if (stripes_.size() > 1) alone.is_followed = false;
  ASSIGN_OR_RETURN(const Progress progress,
                   stripes_[sending_].channel->TrySend(alone));
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
                               std::vector<pollfd>& polled) {
  bool may_sleep = true;
  for (size_t i = 0; i < stripes_.size(); ++i) {
    const size_t before = polled.size();
    // A peer that ends closes all, so one is enough to see it; and what it sent
    // before may still be unread on this one only.
    if (i == receiving_ || (for_send && i == sending_)) {
      may_sleep &= stripes_[i].channel->BeginWait(
          for_send && i == sending_, for_receive && i == receiving_, polled);
    }
    stripes_[i].polled_count = polled.size() - before;
  }
  return may_sleep;
}

absl::Status StripedChannel::EndWait(std::span<const pollfd> polled) {
  absl::Status status;
  for (Stripe& stripe : stripes_) {
    if (stripe.polled_count == 0) continue;
    status.Update(stripe.channel->EndWait(polled.first(stripe.polled_count)));
    polled = polled.subspan(stripe.polled_count);
  }
  return status;
}

absl::Status StripedChannel::CheckPeer(MonotonicTime now) {
  for (Stripe& stripe : stripes_)
    RETURN_IF_ERROR(stripe.channel->CheckPeer(now));
  return absl::OkStatus();
}

void StripedChannel::Close() {
  for (Stripe& stripe : stripes_) stripe.channel->Close();
}

}  // namespace ringmaster
