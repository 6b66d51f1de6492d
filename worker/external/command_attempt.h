// CommandAttempt: one start of a job's commands, as a rank of a generation has
// it: its command, and the views that the command follows.
//
// It outlives its generation if its command can go on without others: then the
// next generation has it go on. A rank that came later takes part without a
// command. Thread-compatible.
#ifndef RINGMASTER_WORKER_EXTERNAL_COMMAND_ATTEMPT_H_
#define RINGMASTER_WORKER_EXTERNAL_COMMAND_ATTEMPT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/logging/log_file.h"
#include "common/transport/cancel_token.h"
#include "worker/external/command_environment.h"
#include "worker/external/command_setup.h"
#include "worker/external/command_states.h"
#include "worker/external/running_command.h"
#include "worker/views/view.h"
#include "worker/views/view_server.h"

namespace ringmaster {

class CommandAttempt {
 public:
  // Starts the command of `place`. All but `place` outlive the attempt.
  CommandAttempt(const CommandSetup& setup, CommandPlace place,
                 const LogFileOptions& output_file, Clock& clock);
  // Starts the command of `place` as a newcomer to the others, which are in
  // `view`; place.group is theirs.
  CommandAttempt(const CommandSetup& setup, CommandPlace place, View view,
                 const LogFileOptions& output_file, Clock& clock);
  // Takes part in the `number`-th start of `world_size` commands without one.
  CommandAttempt(int number, int world_size, Clock& clock);

  // Which start it is, from 0; of how many commands; and which of them is here,
  // -1 for none.
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int world_size() const { return world_size_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const RunningCommand& command() const { return *command_; }

  // Waits for the command's end or for its word, until `deadline`, a
  // cancellation, or `wake` (an eventfd, which is reset) is rung.
  void Wait(MonotonicTime deadline, const CancelToken& cancel, int wake);
  // Takes what the command has said by now, as Wait does at its end.
  void Look();
  // As of RunningCommand.
  void Terminate(absl::Duration grace);
  void Stop(absl::Duration grace, const CancelToken& cancel);

  // This rank's command's (command_states.h); kNowhere if there is none, or it is
  // a newcomer that does not yet join the others.
  [[nodiscard]] int64_t state() const;
  // It is a newcomer that is in no view.
  [[nodiscard]] bool is_waiting() const {
    return is_newcomer_ && !view_.Has(rank_);
  }
  // It is a newcomer that has not said yet that it takes in others: it has no part
  // in how the attempt ends, and is lost however it ends itself.
  [[nodiscard]] bool is_attaching() const {
    return is_newcomer_ && !has_attached();
  }
  // It has said so at some time.
  [[nodiscard]] bool has_attached() const {
    return views_ != nullptr && views_->has_attached();
  }
  // What the others need to reach it, once it waits for them alone; else empty.
  [[nodiscard]] std::string joining_member() const;
  // What newcomers need to reach this one, which is in the view and lives; empty if it
  // takes in none.
  [[nodiscard]] std::string group() const;
  // It is in the view and lives, and takes in no newcomers; it is none that is
  // about to.
  [[nodiscard]] bool refuses_newcomers() const {
    return lives() && view_.Has(rank_) && !is_attaching() && group().empty();
  }
  // A newcomer may be started in its place, or, without a command, in that of any
  // that is lost.
  [[nodiscard]] bool is_free() const;
  [[nodiscard]] const CommandPlace& place() const { return place_; }
  [[nodiscard]] bool lives() const;
  // It has ended by itself with 0, and was no newcomer that had not attached.
  [[nodiscard]] bool has_ended_well() const {
    return state() == command_state::kEnded && !is_attaching();
  }
  // It has ended by itself, and not well.
  [[nodiscard]] bool has_failed() const;
  // By a signal, and the others have not gone on without it.
  [[nodiscard]] bool was_killed() const;
  // It has ended in the view before it had attached.
  [[nodiscard]] bool is_vain() const {
    return is_attaching() && view_.Has(rank_) &&
           state() > command_state::kLives;
  }
  // It lives, and was not asked to end.
  [[nodiscard]] bool can_go_on() const {
    return lives() && !is_asked_to_end_ && views_ != nullptr &&
           views_->can_go_on();
  }
  // It has ended by itself after it was able to: the others' can go on, and if
  // they have ended, too, the attempt is over.
  [[nodiscard]] bool is_over() const;
  // It was able to, and its process lets go of what it has open: it is about to
  // end, most likely.
  [[nodiscard]] bool is_ending() const {
    return lives() && could_go_on_ && !is_asked_to_end_ && !views_->can_go_on();
  }
  // It will be able to, once all ranks have met.
  [[nodiscard]] bool is_meeting() const {
    return !is_newcomer_ && views_ != nullptr && views_->is_meeting();
  }
  // Since when the command waits for a view without others.
  [[nodiscard]] std::optional<MonotonicTime> awaits_view_since() const;

  // The newest view, of those that go on; number 0 until there is one.
  [[nodiscard]] const View& view() const { return view_; }
  void SetView(View view);
  [[nodiscard]] bool has_lost_ranks() const {
    return view_.number > 0 &&
           view_.ranks.size() < static_cast<size_t>(world_size_);
  }
  // The ranks that the command has waited for a view without for `limit`, or
  // longer.
  [[nodiscard]] std::set<int> LostFor(absl::Duration limit) const;
  // Has the command's wait for a view without a rank fail if none will come:
  // the rank does not live, of `states`, and yet no view was made; or it does,
  // and the command has waited for `limit`.
  void AnswerLost(const std::vector<int64_t>& states, absl::Duration limit);
  // Ends the command for the others' sake; a newcomer's place is free then.
  void Kill() { command_->Terminate(absl::ZeroDuration()); }

 private:
  Clock& clock_;
  const int number_;
  const int world_size_;
  const int rank_;
  const bool is_newcomer_ = false;
  CommandPlace place_;
  std::unique_ptr<ViewServer> views_;  // null: the system has none
  std::unique_ptr<RunningCommand> command_;
  View view_;
  bool could_go_on_ = false;  // at some time
  bool is_asked_to_end_ = false;
  std::optional<MonotonicTime> lost_since_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_COMMAND_ATTEMPT_H_
