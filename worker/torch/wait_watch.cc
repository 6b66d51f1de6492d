#include "worker/torch/wait_watch.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ringmaster {
namespace {

std::string InSeconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Seconds(duration), " s");
}

}  // namespace

std::string WaitWatch::Look(const CollectiveProgress& progress,
                            std::string_view operation, MonotonicTime now) {
  const absl::Duration waited = now - since_;
  const bool goes_on =
      progress.waiting_for_rank < 0 || progress.completed != completed_;
  if (goes_on || progress.waiting_for_rank != awaited_) {
    std::string text;
    if (goes_on && told_ > absl::ZeroDuration()) {
      text = absl::StrCat("ringmaster: rank ", rank_, " goes on after ",
                          InSeconds(waited));
    }
    // Others that are late in turn make one wait.
    if (goes_on) {
      since_ = now;
      told_ = absl::ZeroDuration();
    }
    completed_ = progress.completed;
    awaited_ = progress.waiting_for_rank;
    return text;
  }
  const absl::Duration due =
      told_ == absl::ZeroDuration() ? patience_ : 2 * told_;
  if (waited < due) return "";
  told_ = due;
  return absl::StrCat("ringmaster: rank ", rank_, " has waited ",
                      InSeconds(waited), " for rank ", awaited_, " in ",
                      absl::string_view(operation.data(), operation.size()),
                      ", collective ", progress.completed + 1,
                      " of its process group");
}

}  // namespace ringmaster
