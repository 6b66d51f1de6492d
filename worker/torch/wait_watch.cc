#include "worker/torch/wait_watch.h"

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

std::string InSeconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Seconds(duration), " s");
}

}  // namespace

std::string WaitWatch::Look(const RankActivity& activity, MonotonicTime now) {
  const absl::Duration waited = now - since_;
  if (activity.awaited_rank < 0 || activity.done != done_) {
    std::string text;
    if (told_ > absl::ZeroDuration()) {
      text = absl::StrCat("rank ", rank_, " goes on after ", InSeconds(waited));
    }
    since_ = now;
    told_ = absl::ZeroDuration();
    done_ = activity.done;
    return text;
  }
  // Ranks that are late in turn make one wait.
  const absl::Duration due =
      told_ == absl::ZeroDuration() ? patience_ : 2 * told_;
  if (waited < due) return "";
  told_ = due;
  return absl::StrCat("rank ", rank_, " has waited ", InSeconds(waited),
                      " for rank ", activity.awaited_rank, " in ",
                      activity.operation);
}

}  // namespace ringmaster
