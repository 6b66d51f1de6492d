#include "worker/external/command_states.h"

#include "absl/strings/str_cat.h"
#include "worker/external/child_command.h"

namespace ringmaster {
namespace {

std::string LossText(int rank, int64_t state) {
  const std::string who = absl::StrCat("rank ", rank);
  if (state == command_state::kNowhere)
    return absl::StrCat("the worker of ", who, " is lost");
  if (state == command_state::kEnded)
    return absl::StrCat(who, " has ended with exit code 0");
  if (state == command_state::kFailed) return absl::StrCat(who, " has failed");
  return absl::StrCat(who, " ",
                      CommandEndText({.signal = static_cast<int>(
                                          state - command_state::kKilled)}));
}

}  // namespace

View ViewOf(const std::vector<int64_t>& states, const View& before,
            int64_t number) {
  View view;
  view.number = number;
  for (size_t i = 0; i < states.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (states[i] == command_state::kLives) {
      view.ranks.push_back(rank);
    } else if (before.Has(rank)) {
      absl::StrAppend(&view.why, view.why.empty() ? "" : ", ",
                      LossText(rank, states[i]));
    }
  }
  return view;
}

}  // namespace ringmaster
