#include "worker/supervisor/restart_policy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/supervisor/child_exit.h"

namespace ringmaster {

RestartPolicy::Decision RestartPolicy::OnEnd(int wait_status,
                                             MonotonicTime started_at,
                                             MonotonicTime ended_at) {
  if (ended_at - started_at >= options_.settle_after)
    next_delay_ = absl::ZeroDuration();
  switch (KindOfChildEnd(wait_status)) {
    case ChildEnd::kWanted:
      return {std::nullopt, "it was asked to end; not started again"};
    case ChildEnd::kPermanent:
      return {std::nullopt,
              "starting it again would end the same way; its last line says "
              "what to correct"};
    case ChildEnd::kCrash:
      crashes_.push_back(ended_at);
      while (ended_at - crashes_.front() > options_.crash_window)
        crashes_.pop_front();
      if (std::cmp_greater(crashes_.size(), options_.max_crashes)) {
        return {std::nullopt,
                absl::StrCat("crashed ", crashes_.size(), " times within ",
                             absl::FormatDuration(options_.crash_window),
                             ", more than --max_crashes=", options_.max_crashes,
                             "; not started again: its log says where it "
                             "fails")};
      }
      break;
    case ChildEnd::kFromOutside:
      break;
  }
  const absl::Duration delay = NextDelay();
  return {delay,
          delay == absl::ZeroDuration()
              ? "starts again"
              : absl::StrCat("starts again in ", absl::FormatDuration(delay))};
}

absl::Duration RestartPolicy::NextDelay() {
  const absl::Duration delay = next_delay_;
  next_delay_ = delay == absl::ZeroDuration()
                    ? std::min(options_.delay_initial, options_.delay_max)
                    : std::min(delay * 2, options_.delay_max);
  return delay;
}

}  // namespace ringmaster
