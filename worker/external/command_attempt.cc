#include "worker/external/command_attempt.h"

#include <utility>

#include "absl/status/statusor.h"
#include "common/logging/logging.h"

namespace ringmaster {

CommandAttempt::CommandAttempt(const CommandSetup& setup, CommandPlace place,
                               const LogFileOptions& output_file, Clock& clock)
    : CommandAttempt(setup, std::move(place), View(), output_file, clock) {}

CommandAttempt::CommandAttempt(const CommandSetup& setup, CommandPlace place,
                               View view, const LogFileOptions& output_file,
                               Clock& clock)
    : clock_(clock),
      number_(place.restart_count),
      world_size_(place.world_size),
      rank_(place.rank),
      is_newcomer_(!place.group.empty()),
      place_(std::move(place)),
      view_(std::move(view)) {
  absl::StatusOr<std::unique_ptr<ViewServer>> views =
      ViewServer::Listen(rank_, world_size_);
  if (views.ok()) {
    views_ = *std::move(views);
    place_.views = views_->name();
  } else {
    LogEvent(LogLevel::kWarning, "command.no_views",
             {{"error", views.status().message()}});
  }
  command_ =
      std::make_unique<RunningCommand>(setup, place_, output_file, clock);
}

CommandAttempt::CommandAttempt(int number, int world_size, Clock& clock)
    : clock_(clock),
      number_(number),
      world_size_(world_size),
      rank_(-1),
      command_(std::make_unique<RunningCommand>(clock)) {}

void CommandAttempt::Wait(MonotonicTime deadline, const CancelToken& cancel,
                          int wake) {
  command_->Wait(deadline, cancel, wake, views_ == nullptr ? -1 : views_->fd());
  Look();
}

void CommandAttempt::Terminate(absl::Duration grace) {
  is_asked_to_end_ = true;
  command_->Terminate(grace);
}

void CommandAttempt::Stop(absl::Duration grace, const CancelToken& cancel) {
  is_asked_to_end_ = true;
  command_->Stop(grace, cancel);
}

bool CommandAttempt::is_over() const {
  const bool has_ended =
      state() == command_state::kEnded || state() == command_state::kFailed;
  return has_ended && could_go_on_ && !is_asked_to_end_;
}

void CommandAttempt::Look() {
  command_->Look();
  if (views_ == nullptr) return;
  views_->Look();
  could_go_on_ = could_go_on_ || views_->can_go_on();
  if (views_->lost().empty()) {
    lost_since_.reset();
  } else if (!lost_since_.has_value()) {
    lost_since_ = clock_.Now();
  }
}

int64_t CommandAttempt::state() const {
  if (rank_ < 0 || (is_waiting() && joining_member().empty()))
    return command_state::kNowhere;
  if (!command_->has_ended()) return command_state::kLives;
  if (!command_->has_failed()) return command_state::kEnded;
  if (command_->signal() > 0)
    return command_state::kKilled + command_->signal();
  return command_state::kFailed;
}

std::string CommandAttempt::joining_member() const {
  return is_waiting() && !command_->has_ended() && views_ != nullptr
             ? views_->member()
             : "";
}

std::string CommandAttempt::group() const {
  return lives() && view_.Has(rank_) && views_ != nullptr ? views_->group()
                                                          : "";
}

bool CommandAttempt::is_free() const {
  if (is_asked_to_end_) return false;
  return rank_ < 0 || (command_->has_ended() && !view_.Has(rank_) &&
                       (is_attaching() || command_->signal() > 0));
}

bool CommandAttempt::lives() const { return state() == command_state::kLives; }

bool CommandAttempt::has_failed() const {
  return state() == command_state::kFailed && !is_attaching();
}

bool CommandAttempt::was_killed() const {
  return state() > command_state::kKilled && view_.Has(rank_) &&
         !is_attaching();
}

std::optional<MonotonicTime> CommandAttempt::awaits_view_since() const {
  return lives() ? lost_since_ : std::nullopt;
}

void CommandAttempt::SetView(View view) {
  view_ = std::move(view);
  lost_since_.reset();
  if (views_ != nullptr && lives()) views_->Send(view_);
}

std::set<int> CommandAttempt::LostFor(absl::Duration limit) const {
  const std::optional<MonotonicTime> since = awaits_view_since();
  if (!since.has_value() || clock_.Now() < *since + limit) return {};
  return views_->lost();
}

void CommandAttempt::AnswerLost(const std::vector<int64_t>& states,
                                absl::Duration limit) {
  if (views_ == nullptr || !awaits_view_since().has_value()) return;
  const bool is_over = clock_.Now() >= *lost_since_ + limit;
  const std::set<int> lost = views_->lost();
  for (const int rank : lost) {
    if (is_over || states[static_cast<size_t>(rank)] != command_state::kLives)
      views_->Refuse(rank);
  }
}

}  // namespace ringmaster
