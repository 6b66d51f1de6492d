#include "worker/external/external_runner.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/config/address.h"
#include "common/files/file_roots.h"
#include "common/job/field_rules.h"
#include "common/job/job_spec.h"
#include "common/logging/logging.h"
#include "common/plan/topology.h"
#include "common/protocol/proto_time.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/transport/establish.h"
#include "common/transport/tcp.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/collective/connect_mesh.h"
#include "worker/external/command_attempt.h"
#include "worker/external/command_environment.h"
#include "worker/external/command_setup.h"
#include "worker/external/command_states.h"
#include "worker/external/rank_meeting.h"
#include "worker/external/running_command.h"
#include "worker/member/assignment_mesh.h"
#include "worker/member/catch_exhaustion.h"
#include "worker/member/progress_board.h"
#include "worker/member/run_outcome.h"
#include "worker/train/exchange/live_generation.h"

namespace ringmaster {
namespace {

// What a rank wants beside running its command; the largest wish of all counts.
enum class Wish : int { kNone, kDrain, kStop };

// The longest time between meetings of ranks that wait for commands to end.
constexpr absl::Duration kStopInterval = absl::Milliseconds(20);

// Ranks that are killed while they meet cost a start again, but no restart
// that the job allows, up to so many times.
constexpr int64_t kMostEarlyLosses = 3;

// How often the ranks meet again over one that was killed while another is about
// to end, with kStopInterval between: a process of PyTorch's takes its time.
constexpr int kMostAsked = 100;

// So many newcomers that end before they have attached are enough to know that
// they do; and a rank has no more new ones within kNewcomerTime, since each of
// them interrupts the others.
constexpr int kMostVainNewcomers = 3;
constexpr size_t kMostNewcomers = 3;
constexpr absl::Duration kNewcomerTime = absl::Minutes(1);

// Views of one generation have numbers from its own times this on.
constexpr int64_t kViewsOfGeneration = 1 << 20;

// How the commands of all ranks ended.
struct AttemptEnd {
  Wish wish = Wish::kNone;              // kNone: with 0, unless one has failed
  std::optional<int> failed_rank = {};  // the first to fail
  // It was killed while the ranks met.
  bool is_early_loss = false;
};

class ExternalRunner final : public JobRunner {
 public:
  ExternalRunner(Clock& clock, const Listener& listener,
                 ExternalRunnerOptions options)
      : clock_(clock),
        listener_(listener),
        options_(std::move(options)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  absl::StatusOr<PlanAgreement> Prepare(
      const v1::JobSpec& spec, const RankAssignment& assignment) override;
  RunOutcome Run() override;
  void Abort(int64_t generation, std::string_view why) override {
    live_.Abort(generation, why);
  }
  void RequestStop() override { Want(Wish::kStop); }
  void RequestDrain() override { Want(Wish::kDrain); }
  void SetNoticeCallback(
      std::function<void(const v1::Notice&)> on_notice) override {
    on_notice_ = std::move(on_notice);
  }
  void SetAdvanceCallback(std::function<void(int64_t)> on_advance) override {
    board_.SetAdvanceCallback(std::move(on_advance));
  }
  void Release() override;
  TrainProgress progress() const override;
  const Trace& trace() const override { return trace_; }

 private:
  // A stop is more than a drain.
  void Want(Wish wish);
  [[nodiscard]] absl::StatusOr<PlanAgreement> TryPrepare(
      const v1::JobSpec& spec, const RankAssignment& assignment);
  [[nodiscard]] absl::StatusOr<Wish> RunGeneration();
  // Starts the commands as often as the ranks agree to, unless those of the last
  // generation go on.
  [[nodiscard]] absl::StatusOr<Wish> RunAttempts(RankMeeting& meeting);
  // Returns true if the ranks' commands of the last generation go on, in a view
  // of those that are left; else none runs any longer.
  [[nodiscard]] absl::StatusOr<bool> GoOn(RankMeeting& meeting);
  [[nodiscard]] absl::Status StartAttempt(RankMeeting& meeting);
  // Returns where this rank is, with a port that is free now on rank 0's host.
  [[nodiscard]] absl::StatusOr<CommandPlace> AgreeOnPlace(
      RankMeeting& meeting) const;
  // The same as far as this rank knows it.
  [[nodiscard]] CommandPlace PlaceHere() const;
  // Follows the command until the ranks agree how it ended; then it has.
  [[nodiscard]] absl::StatusOr<AttemptEnd> Follow(RankMeeting& meeting);
  // The states of all commands of the attempt, by rank.
  [[nodiscard]] absl::StatusOr<std::vector<int64_t>> StatesOfAll(
      RankMeeting& meeting) const;
  // Has the commands that live go on without the others, and with newcomers that
  // join.
  [[nodiscard]] absl::Status ChangeView(RankMeeting& meeting);
  // All newcomers that there were, with those that join now.
  [[nodiscard]] absl::StatusOr<std::vector<Newcomer>> AgreeOnNewcomers(
      RankMeeting& meeting) const;
  // Starts the commands again of ranks that are lost, where there is a place.
  [[nodiscard]] absl::Status StartNewcomers(RankMeeting& meeting);
  // The rank that this one is to start so; -1: none.
  [[nodiscard]] absl::StatusOr<int> AgreeOnPlaces(RankMeeting& meeting) const;
  [[nodiscard]] bool CanHaveNewcomer() const;
  // Notes whether the newcomer here has attached, or was the last one in vain.
  void LookAtNewcomer();
  // Tells those who wait for a view without a rank that lives that none comes; a
  // newcomer that has not attached is ended for it instead.
  [[nodiscard]] absl::Status AnswerLost(RankMeeting& meeting);
  void ForgetNewcomers();
  // For those who ask whether the command goes on in another generation.
  void NoteAttempt();
  // Ends this rank's command within `grace`.
  void StopAttempt(absl::Duration grace);
  // The status of this rank if no more attempts are made.
  [[nodiscard]] absl::Status FailureOf(int failed_rank) const;
  void NoteRestart(bool is_free);
  // `missing`: why nobody takes the place of a lost one; may be empty.
  void NoteView(const View& before, std::string_view missing);
  void NoteFailure(const std::string& message);
  // The step is applied, or it is not.
  void SetDone(bool is_done);
  [[nodiscard]] absl::Duration stop_grace() const {
    return FromProto(program_.stop_grace());
  }

  Clock& clock_;
  const Listener& listener_;
  const ExternalRunnerOptions options_;
  const UniqueFd wake_;  // rung when there is a new wish
  Trace trace_;
  ProgressBoard board_;
  std::atomic<int> wish_ = 0;
  std::atomic<bool> can_go_on_ = false;  // the command of attempt_
  std::function<void(const v1::Notice&)> on_notice_ = [](const v1::Notice&) {};

  // Only on the training thread.
  RankAssignment assignment_;
  v1::ExternalProgram program_;
  CommandSetup setup_;
  bool is_done_ = false;
  int blamed_rank_ = -1;  // the peer that this generation failed on
  // Null before the first start, and once its command was stopped.
  std::unique_ptr<CommandAttempt> attempt_;
  // Of this job, as far as this rank or a peer of its last generation knows.
  int64_t starts_ = 0;        // of the commands
  int64_t failures_ = 0;      // for which they were started again
  int64_t early_losses_ = 0;  // the same, as a rank was killed while they met
  int vain_newcomers_ = 0;    // in a row, started here, that have not attached
  bool has_given_up_newcomers_ = false;         // and said so
  std::vector<MonotonicTime> newcomer_starts_;  // here, the last ones
  // A command has ended with 0: the script is at its end.
  bool has_ended_ = false;

  LiveGeneration live_;
};

// A port of this host, in `range` if there is one, that was free a moment ago;
// the command is to listen on it.
absl::StatusOr<int> FreePort(const std::optional<PortRange>& range) {
  if (!range.has_value()) {
    ASSIGN_OR_RETURN(const Listener listener, Listener::Listen("0.0.0.0:0"));
    return listener.port();
  }
  // Not always the first: another job of this host may be about to take that.
  const auto turn = static_cast<int>(std::random_device()() % 0x10000);
  for (int i = 0; i < range->count(); ++i) {
    const int port = range->first + (turn + i) % range->count();
    if (Listener::Listen(absl::StrCat("0.0.0.0:", port)).ok()) return port;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no port of --data_ports=", range->first, "-", range->last,
                   " is free for MASTER_PORT"));
}

void ExternalRunner::Want(Wish wish) {
  int before = wish_.load();
  while (before < static_cast<int>(wish) &&
         !wish_.compare_exchange_weak(before, static_cast<int>(wish))) {
  }
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

absl::StatusOr<PlanAgreement> ExternalRunner::Prepare(
    const v1::JobSpec& spec, const RankAssignment& assignment) {
  // A wish ends with the generation that it was made in.
  wish_.store(0);
  live_.Begin(assignment.generation);
  board_.EnterPhase(TrainPhase::kPrepare);
  return CatchExhaustion(assignment.rank,
                         [&] { return TryPrepare(spec, assignment); });
}

absl::StatusOr<PlanAgreement> ExternalRunner::TryPrepare(
    const v1::JobSpec& spec, const RankAssignment& assignment) {
  const std::string who = absl::StrCat("rank ", assignment.rank);
  if (!options_.is_allowed) {
    return absl::UnavailableError(absl::StrCat(
        who,
        ": this worker runs no commands, since it was started without "
        "--allow_commands"));
  }
  if (assignment.resume_step < 0 || assignment.resume_step > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " is to go on after step ", assignment.resume_step,
                     ", but a command is one step"));
  }
  assignment_ = assignment;
  ASSIGN_OR_RETURN(program_, DefaultProgram(spec.external()));
  absl::StatusOr<CommandSetup> setup = SetUpCommand(program_, ProcessFiles());
  if (!setup.ok()) return Annotate(setup.status(), who);
  setup_ = *std::move(setup);
  // A worker that joins when all commands have ended has nothing to do.
  SetDone(assignment.resume_step == 1);
  NoteAttempt();
  board_.BeginGeneration(assignment.generation, /*total_steps=*/1);
  PlanAgreement agreement;
  const std::string plan =
      absl::StrCat(AgreedText(program_), " by ", assignment.world_size);
  agreement.plan_hash = XXH64(plan.data(), plan.size(), 0);
  agreement.summary = absl::StrCat("command=", program_.command(0),
                                   " ranks=", assignment.world_size);
  return agreement;
}

void ExternalRunner::SetDone(bool is_done) {
  is_done_ = is_done;
  const int64_t step = is_done ? 1 : 0;
  board_.SetSteps(step, step);
}

RunOutcome ExternalRunner::Run() {
  const absl::StatusOr<Wish> end =
      CatchExhaustion(assignment_.rank, [this] { return RunGeneration(); });
  if (end.ok() && *end == Wish::kNone) SetDone(true);
  NoteAttempt();
  board_.EnterPhase(TrainPhase::kHalted);
  if (!end.ok()) {
    return FailedOutcome(end.status(),
                         {.applied_step = 0,
                          .complete_step = 0,
                          .members = assignment_.world_size,
                          .blamed_rank = blamed_rank_,
                          .is_cancelled = live_.cancel()->is_cancelled()});
  }
  RunOutcome outcome;
  outcome.applied_step = outcome.complete_step = is_done_ ? 1 : 0;
  outcome.kind = *end == Wish::kNone    ? RunOutcome::Kind::kFinished
                 : *end == Wish::kDrain ? RunOutcome::Kind::kDrained
                                        : RunOutcome::Kind::kStopped;
  return outcome;
}

absl::StatusOr<Wish> ExternalRunner::RunGeneration() {
  if (is_done_) return Wish::kNone;
  const std::shared_ptr<const CancelToken> cancel = live_.cancel();
  blamed_rank_ = -1;
  RETURN_IF_ERROR(cancel->status());
  board_.EnterPhase(TrainPhase::kConnect);
  MeshConfig mesh = MeshOf(
      assignment_, {.best_transport = Transport::kUnix, .connections = 1},
      clock_, trace_);
  const absl::StatusOr<std::unique_ptr<Communicator>> connected =
      ConnectMesh(listener_, mesh, cancel.get());
  blamed_rank_ = BlamedPeer(connected.status());
  RETURN_IF_ERROR(connected.status());
  Communicator& communicator = **connected;
  RETURN_IF_ERROR(live_.Expose(communicator, /*prefetcher=*/nullptr));
  const absl::Cleanup unexpose = [this] { live_.Unexpose(); };
  board_.EnterPhase(TrainPhase::kCommand);
  RankMeeting meeting(communicator, clock_, assignment_.collective_timeout);
  absl::StatusOr<Wish> end = RunAttempts(meeting);
  if (!end.ok()) {
    // What this rank has failed of itself is no peer's.
    if (IsOfPeers(end.status()) && blamed_rank_ < 0)
      blamed_rank_ = communicator.progress().blamed_rank;
    communicator.Abort(std::string(end.status().message()));
  }
  return end;
}

absl::StatusOr<Wish> ExternalRunner::RunAttempts(RankMeeting& meeting) {
  while (true) {
    ASSIGN_OR_RETURN(const bool goes_on, GoOn(meeting));
    // The generation was formed for commands that would go on with fewer.
    if (!goes_on && assignment_.world_size < assignment_.least_workers)
      return Wish::kDrain;
    if (!goes_on) RETURN_IF_ERROR(StartAttempt(meeting));
    const absl::StatusOr<AttemptEnd> end = Follow(meeting);
    if (!end.ok()) {
      // A command that can go on without those that are lost waits for the next
      // generation; it knows nothing of this one's end.
      attempt_->Look();
      if (attempt_->lives() && !attempt_->can_go_on())
        StopAttempt(RunningCommand::kShortGrace);
      return end.status();
    }
    if (!end->failed_rank.has_value()) {
      attempt_.reset();
      return end->wish;
    }
    const bool is_free = end->is_early_loss && early_losses_ < kMostEarlyLosses;
    if (!is_free && failures_ >= program_.max_restarts())
      return FailureOf(*end->failed_rank);
    ++(is_free ? early_losses_ : failures_);
    if (end->failed_rank == assignment_.rank) NoteRestart(is_free);
    attempt_.reset();
  }
}

absl::StatusOr<bool> ExternalRunner::GoOn(RankMeeting& meeting) {
  enum {
    kStarts,
    kFailures,
    kEarly,
    kNumber,
    kGoesOn,
    kIsOver,
    kWasKilled,
    kCannot,
    kSize,
    kCount
  };
  const auto number = [&] {
    return attempt_ == nullptr ? int64_t{0} : attempt_->number() + 1;
  };
  std::array<int64_t, kCount> all{};
  all[kStarts] = starts_;
  all[kFailures] = failures_;
  all[kEarly] = early_losses_;
  all[kNumber] = number();
  RETURN_IF_ERROR(meeting.TakeMaxima(all));
  starts_ = all[kStarts];
  failures_ = all[kFailures];
  early_losses_ = all[kEarly];
  // The others have started theirs again without this rank.
  const bool is_old = number() < all[kNumber];
  if (is_old) StopAttempt(RunningCommand::kShortGrace);
  if (attempt_ != nullptr) attempt_->Look();
  const bool has_command = attempt_ != nullptr && attempt_->rank() >= 0 &&
                           !attempt_->is_waiting() && !attempt_->is_attaching();
  const bool goes_on = has_command && attempt_->can_go_on();
  const bool is_over = has_command && attempt_->is_over();
  // One that was killed is lost, as if its worker were.
  const bool is_lost =
      has_command && attempt_->state() > command_state::kKilled;
  all[kGoesOn] = goes_on ? 1 : 0;
  all[kIsOver] = is_over ? 1 : 0;
  all[kWasKilled] = has_command && attempt_->was_killed() ? 1 : 0;
  all[kCannot] = has_command && !goes_on && !is_over && !is_lost ? 1 : 0;
  all[kSize] = attempt_ == nullptr ? 0 : attempt_->world_size();
  RETURN_IF_ERROR(meeting.TakeMaxima(all));
  const bool are_over = all[kIsOver] != 0 && all[kWasKilled] == 0;
  if (all[kCannot] != 0 || (all[kGoesOn] == 0 && !are_over)) {
    StopAttempt(RunningCommand::kShortGrace);
    return false;
  }
  if (attempt_ == nullptr) {
    attempt_ =
        std::make_unique<CommandAttempt>(static_cast<int>(all[kNumber]) - 1,
                                         static_cast<int>(all[kSize]), clock_);
  }
  RETURN_IF_ERROR(ChangeView(meeting));
  return true;
}

absl::Status ExternalRunner::StartAttempt(RankMeeting& meeting) {
  ASSIGN_OR_RETURN(CommandPlace place, AgreeOnPlace(meeting));
  ++starts_;
  ForgetNewcomers();
  attempt_ = std::make_unique<CommandAttempt>(setup_, std::move(place),
                                              options_.output_file, clock_);
  return absl::OkStatus();
}

void ExternalRunner::NoteAttempt() {
  if (attempt_ != nullptr) attempt_->Look();
  can_go_on_ = attempt_ != nullptr && !attempt_->is_attaching() &&
               (attempt_->can_go_on() || attempt_->is_over());
}

void ExternalRunner::ForgetNewcomers() {
  vain_newcomers_ = 0;
  has_given_up_newcomers_ = has_ended_ = false;
  newcomer_starts_.clear();
}

bool ExternalRunner::CanHaveNewcomer() const {
  const MonotonicTime now = clock_.Now();
  return attempt_->is_free() && vain_newcomers_ < kMostVainNewcomers &&
         (newcomer_starts_.size() < kMostNewcomers ||
          newcomer_starts_.front() + kNewcomerTime <= now);
}

void ExternalRunner::LookAtNewcomer() {
  if (attempt_->has_attached()) vain_newcomers_ = 0;
  if (vain_newcomers_ < kMostVainNewcomers || has_given_up_newcomers_ ||
      attempt_->rank() < 0 || !attempt_->is_free()) {
    return;
  }
  has_given_up_newcomers_ = true;
  NoteFailure(absl::StrCat(
      "no more processes are started in the place of rank ", attempt_->rank(),
      ": ", vain_newcomers_,
      " have ended before they had come through ringmaster_torch.attach; what "
      "they say is in the log"));
}

void ExternalRunner::StopAttempt(absl::Duration grace) {
  if (attempt_ == nullptr) return;
  // Its end is not its fault.
  if (attempt_->is_attaching() && !attempt_->command().has_ended() &&
      vain_newcomers_ > 0) {
    --vain_newcomers_;
  }
  attempt_->Stop(std::min(stop_grace(), grace), *live_.cancel());
  attempt_.reset();
}

absl::StatusOr<std::vector<int64_t>> ExternalRunner::StatesOfAll(
    RankMeeting& meeting) const {
  std::vector<int64_t> states(static_cast<size_t>(attempt_->world_size()),
                              command_state::kNowhere);
  if (attempt_->rank() >= 0)
    states[static_cast<size_t>(attempt_->rank())] = attempt_->state();
  RETURN_IF_ERROR(meeting.TakeMaxima(states));
  return states;
}

absl::Status ExternalRunner::AnswerLost(RankMeeting& meeting) {
  // By rank, whether it is attaching; and whether somebody has waited for a view
  // without it for so long that it is to end if it is, before others fail.
  const auto size = static_cast<size_t>(attempt_->world_size());
  std::vector<int64_t> all(2 * size);
  const int own = attempt_->rank();
  if (own >= 0 && attempt_->is_attaching() && attempt_->view().Has(own))
    all[static_cast<size_t>(own)] = 1;
  for (const int rank : attempt_->LostFor(options_.lost_limit / 2))
    all[size + static_cast<size_t>(rank)] = 1;
  RETURN_IF_ERROR(meeting.TakeMaxima(all));
  ASSIGN_OR_RETURN(std::vector<int64_t> states, StatesOfAll(meeting));
  absl::Duration limit = options_.lost_limit;
  for (size_t rank = 0; rank < size; ++rank) {
    if (all[rank] == 0) continue;
    // The next view is without it, if it has ended.
    states[rank] = command_state::kLives;
    if (all[size + rank] == 0) continue;
    // Others may have lost each other on its account.
    limit = 3 * options_.lost_limit;
    if (static_cast<int>(rank) == own) attempt_->Kill();
  }
  attempt_->AnswerLost(states, limit);
  return absl::OkStatus();
}

absl::Status ExternalRunner::ChangeView(RankMeeting& meeting) {
  std::array<int64_t, 3> all = {
      std::max(attempt_->view().number + 1,
               assignment_.generation * kViewsOfGeneration),
      attempt_->refuses_newcomers() ? 1 : 0,
      attempt_->lives() && attempt_->has_attached() ? 1 : 0};
  RETURN_IF_ERROR(meeting.TakeMaxima(all));
  ASSIGN_OR_RETURN(std::vector<Newcomer> newcomers, AgreeOnNewcomers(meeting));
  ASSIGN_OR_RETURN(const std::vector<int64_t> states, StatesOfAll(meeting));
  const View before = attempt_->view();
  View view = ViewOf(states, before, all[0]);
  view.newcomers = std::move(newcomers);
  attempt_->SetView(std::move(view));
  NoteView(before,
           all[1] == 0 ? ""
           : all[2] == 0
               ? "no other takes a lost one's place, since the script does not "
                 "call ringmaster_torch.attach (docs/pytorch.md)"
               : "no other takes a lost one's place yet, since not all ranks "
                 "have called ringmaster_torch.attach");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Newcomer>> ExternalRunner::AgreeOnNewcomers(
    RankMeeting& meeting) const {
  // Who joined the generation later does not know of those before.
  const std::vector<Newcomer>& known = attempt_->view().newcomers;
  std::vector<int64_t> joining(static_cast<size_t>(attempt_->world_size()) + 1);
  joining[0] = known.empty() ? 0 : known.back().number;
  const std::string member = attempt_->joining_member();
  if (!member.empty())
    joining[static_cast<size_t>(attempt_->rank()) + 1] = assignment_.rank + 1;
  RETURN_IF_ERROR(meeting.TakeMaxima(joining));
  std::vector<Newcomer> all;
  int64_t number = joining[0];
  if (number > 0) {
    const bool knows_all = !known.empty() && known.back().number == number;
    ASSIGN_OR_RETURN(const std::optional<int> teller,
                     meeting.LowestOf(knows_all));
    ASSIGN_OR_RETURN(const std::string text,
                     meeting.TextOf(teller.value_or(0), NewcomersText(known)));
    if (!ParseNewcomers(text, all))
      return absl::InternalError(
          "the ranks met over newcomers that none knows");
  }
  for (size_t i = 1; i < joining.size(); ++i) {
    if (joining[i] == 0) continue;
    ASSIGN_OR_RETURN(std::string text,
                     meeting.TextOf(static_cast<int>(joining[i]) - 1, member));
    const int rank = static_cast<int>(i) - 1;
    std::erase_if(all, [&](const Newcomer& old) { return old.rank == rank; });
    all.push_back({++number, rank, std::move(text)});
  }
  return all;
}

absl::StatusOr<int> ExternalRunner::AgreeOnPlaces(RankMeeting& meeting) const {
  const bool is_free = CanHaveNewcomer();
  const int own = attempt_->rank();
  // By ranks of commands, whether somebody has it; then by those of workers,
  // whether they take any.
  const auto size = static_cast<size_t>(attempt_->world_size());
  std::vector<int64_t> all(size + static_cast<size_t>(assignment_.world_size));
  // Also one that has ended well, or is not started here any more.
  if (own >= 0) all[static_cast<size_t>(own)] = 1;
  if (own < 0 && is_free) all[size + static_cast<size_t>(assignment_.rank)] = 1;
  RETURN_IF_ERROR(meeting.TakeMaxima(all));
  if (!is_free || own >= 0) return is_free ? own : -1;
  auto before = std::count(
      all.begin() + static_cast<ptrdiff_t>(size),
      all.begin() + static_cast<ptrdiff_t>(size) + assignment_.rank, 1);
  for (size_t rank = 0; rank < size; ++rank) {
    if (all[rank] == 0 && before-- == 0) return static_cast<int>(rank);
  }
  return -1;
}

absl::Status ExternalRunner::StartNewcomers(RankMeeting& meeting) {
  const std::string group = attempt_->group();
  ASSIGN_OR_RETURN(const std::optional<int> teller,
                   meeting.LowestOf(!group.empty()));
  if (!teller.has_value()) return absl::OkStatus();
  const CommandPlace& place_here = attempt_->place();
  ASSIGN_OR_RETURN(
      const std::string told,
      meeting.TextOf(*teller,
                     absl::StrCat(place_here.master_address, " ",
                                  place_here.master_port, " ", group)));
  ASSIGN_OR_RETURN(const int rank, AgreeOnPlaces(meeting));
  if (rank < 0) return absl::OkStatus();
  const std::vector<std::string> words = absl::StrSplit(told, ' ');
  CommandPlace place = PlaceHere();
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], &place.master_port))
    return absl::InternalError("the ranks met over a group that none has");
  place.rank = rank;
  place.world_size = attempt_->world_size();
  place.master_address = words[0];
  place.group = words[2];
  place.restart_count = attempt_->number();
  ++vain_newcomers_;
  newcomer_starts_.push_back(clock_.Now());
  if (newcomer_starts_.size() > kMostNewcomers)
    newcomer_starts_.erase(newcomer_starts_.begin());
  const View view = attempt_->view();
  attempt_.reset();
  attempt_ = std::make_unique<CommandAttempt>(setup_, std::move(place), view,
                                              options_.output_file, clock_);
  return absl::OkStatus();
}

absl::StatusOr<CommandPlace> ExternalRunner::AgreeOnPlace(
    RankMeeting& meeting) const {
  const bool is_first = assignment_.rank == 0;
  CommandPlace place = PlaceHere();
  std::array<int64_t, 1> port = {0};
  std::string address;
  if (is_first) {
    ASSIGN_OR_RETURN(port[0], FreePort(options_.port_range));
    ASSIGN_OR_RETURN(HostPort own, ParseHostPort(assignment_.own_address));
    address = std::move(own.host);
  }
  RETURN_IF_ERROR(meeting.TakeMaxima(port));
  place.master_port = static_cast<int>(port[0]);
  ASSIGN_OR_RETURN(place.master_address, meeting.TextOf(0, address));
  place.restart_count = static_cast<int>(starts_);
  return place;
}

CommandPlace ExternalRunner::PlaceHere() const {
  CommandPlace place;
  place.rank = assignment_.rank;
  place.world_size = assignment_.world_size;
  place.local_rank = assignment_.local_rank;
  place.local_world_size = assignment_.local_world_size;
  const Topology topology = Topology::OfHosts(assignment_.ranks_per_host);
  place.host_index = topology.HostOf(assignment_.rank);
  place.host_count = topology.host_count();
  place.max_restarts = program_.max_restarts();
  place.run_id = assignment_.job_id;
  place.threads = options_.threads;
  place.python_path = options_.python_path;
  place.port_range = options_.port_range;
  return place;
}

absl::StatusOr<AttemptEnd> ExternalRunner::Follow(RankMeeting& meeting) {
  const std::shared_ptr<const CancelToken> cancel = live_.cancel();
  enum {
    kWish,
    kHasFailed,
    kWasKilled,
    kLives,
    kCannotGoOn,
    kIsEnding,
    kIsMeeting,
    kAwaitsView,
    kJoins,
    kIsFree,
    kRefusesNewcomers,
    kIsVain,
    kHasEnded,
    kCount
  };
  AttemptEnd end;
  bool somebody_awaits_view = false;
  int asked = 0;  // how to go on without one that was killed, in a row
  while (true) {
    CommandAttempt& attempt = *attempt_;
    if (asked != 1 && wish_.load() <= static_cast<int>(end.wish)) {
      const absl::Duration interval =
          end.wish == Wish::kNone && !somebody_awaits_view && asked == 0
              ? options_.meeting_interval
              : std::min(options_.meeting_interval, kStopInterval);
      attempt.Wait(clock_.Now() + interval, *cancel, wake_.get());
    }
    RETURN_IF_ERROR(cancel->status());
    attempt.Look();
    LookAtNewcomer();
    std::array<int64_t, kCount> all{};
    all[kWish] = wish_.load();
    all[kHasFailed] = attempt.has_failed() ? 1 : 0;
    all[kWasKilled] = attempt.was_killed() ? 1 : 0;
    const bool is_at_work =
        attempt.lives() && !attempt.is_waiting() && !attempt.is_attaching();
    all[kLives] = is_at_work ? 1 : 0;
    all[kCannotGoOn] = is_at_work && !attempt.can_go_on() ? 1 : 0;
    all[kIsEnding] = attempt.is_ending() ? 1 : 0;
    all[kIsMeeting] = attempt.is_meeting() ? 1 : 0;
    all[kAwaitsView] = attempt.awaits_view_since().has_value() ? 1 : 0;
    all[kJoins] = attempt.joining_member().empty() ? 0 : 1;
    all[kIsFree] = CanHaveNewcomer() ? 1 : 0;
    all[kRefusesNewcomers] = attempt.refuses_newcomers() ? 1 : 0;
    all[kIsVain] = attempt.is_vain() ? 1 : 0;
    all[kHasEnded] = has_ended_ || attempt.has_ended_well() ? 1 : 0;
    RETURN_IF_ERROR(meeting.TakeMaxima(all));
    has_ended_ = all[kHasEnded] != 0;
    const bool was_asked = end.wish != Wish::kNone;
    const bool is_failing = all[kHasFailed] != 0 || all[kWasKilled] != 0;
    end.wish = static_cast<Wish>(all[kWish]);
    // All were done before anybody was asked to end.
    if (!was_asked && all[kLives] == 0 && !is_failing) {
      end.wish = Wish::kNone;
      return end;
    }
    // A wish comes first: what fails because others have stopped is no failure. All
    // go on meeting until the last command has ended, so that each has its grace.
    if (end.wish != Wish::kNone) {
      asked = 0;
      attempt.Terminate(stop_grace());
      if (all[kLives] == 0) return end;
      continue;
    }
    const bool go_on =
        all[kHasFailed] == 0 && all[kLives] != 0 && all[kCannotGoOn] == 0;
    if (all[kWasKilled] != 0 && go_on) {
      RETURN_IF_ERROR(ChangeView(meeting));
      somebody_awaits_view = false;
      asked = 0;
      continue;
    }
    // A rank may have come to this meeting before its command was able to go on,
    // and waited here; or it is about to be lost, too.
    const int most_asked = all[kIsEnding] != 0 ? kMostAsked : 1;
    if (all[kWasKilled] != 0 && all[kHasFailed] == 0 && asked < most_asked) {
      ++asked;
      continue;
    }
    if (is_failing) {
      const bool is_own = attempt.has_failed() || attempt.was_killed();
      ASSIGN_OR_RETURN(end.failed_rank,
                       meeting.FirstToFail(
                           is_own ? std::optional(attempt.command().since_end())
                                  : std::nullopt));
      // The others may have failed because it was.
      std::array<int64_t, 1> was_killed = {
          end.failed_rank == assignment_.rank && attempt.was_killed() ? 1 : 0};
      RETURN_IF_ERROR(meeting.TakeMaxima(was_killed));
      end.is_early_loss = was_killed[0] != 0 && all[kIsMeeting] != 0;
      attempt.Stop(std::min(stop_grace(), RunningCommand::kShortGrace),
                   *cancel);
      return end;
    }
    if ((all[kJoins] != 0 || all[kIsVain] != 0) && go_on) {
      RETURN_IF_ERROR(ChangeView(meeting));
    } else if (all[kIsFree] != 0 && all[kRefusesNewcomers] == 0 &&
               !has_ended_ && go_on && attempt.has_lost_ranks()) {
      // Which may put another attempt in the place of this one.
      RETURN_IF_ERROR(StartNewcomers(meeting));
    }
    somebody_awaits_view = all[kAwaitsView] != 0;
    if (somebody_awaits_view) RETURN_IF_ERROR(AnswerLost(meeting));
  }
}

absl::Status ExternalRunner::FailureOf(int failed_rank) const {
  if (failed_rank != assignment_.rank) {
    // That rank tells, and nobody is to be suspected.
    return absl::AbortedError(
        absl::StrCat("the command of rank ", failed_rank, " failed"));
  }
  const RunningCommand& command = attempt_->command();
  return WithExitCode(OfJob(absl::InternalError(
                          absl::StrCat("the command of rank ", attempt_->rank(),
                                       " ", command.FailureText()))),
                      static_cast<ExitCode>(command.exit_code()));
}

void ExternalRunner::NoteRestart(bool is_free) {
  NoteFailure(absl::StrCat(
      "the command of rank ", attempt_->rank(), " ",
      attempt_->command().FailureText(),
      is_free ? std::string(" before all ranks had met; all are started again")
              : absl::StrCat("; all are started again, which is restart ",
                             failures_, " of ", program_.max_restarts())));
}

void ExternalRunner::NoteView(const View& before, std::string_view missing) {
  const View& view = attempt_->view();
  // One of them tells.
  if (view.ranks.empty() || attempt_->rank() != view.ranks.front()) return;
  const int64_t newest =
      before.newcomers.empty() ? 0 : before.newcomers.back().number;
  std::vector<int> came;
  for (const int rank : view.ranks) {
    if (view.NewcomerOf(rank) > newest) came.push_back(rank);
  }
  std::string what = view.why;
  if (!came.empty()) {
    absl::StrAppend(&what, what.empty() ? "" : "; ",
                    came.size() == 1 ? "a new process takes the place of rank "
                                     : "new processes take the places of rank ",
                    absl::StrJoin(came, ", "));
  }
  if (what.empty()) return;
  NoteFailure(absl::StrCat(
      what, "; ", view.ranks.size(), " of ", attempt_->world_size(),
      " ranks go on",
      before.Has(0) && !view.Has(0)
          ? ", and what a script does on rank 0 alone, such as saving, is done "
            "no longer"
          : "",
      view.why.empty() || missing.empty() ? "" : "; ",
      view.why.empty() ? ""
                       : absl::string_view(missing.data(), missing.size())));
}

void ExternalRunner::NoteFailure(const std::string& message) {
  v1::Notice notice;
  notice.set_generation(assignment_.generation);
  notice.set_kind(v1::NOTICE_KIND_COMMAND_FAILED);
  notice.set_message(message);
  on_notice_(notice);
}

void ExternalRunner::Release() {
  SetDone(false);
  board_.Clear();
  attempt_.reset();
  can_go_on_ = false;
  starts_ = failures_ = early_losses_ = 0;
  ForgetNewcomers();
  setup_ = CommandSetup();  // with its secrets
}

TrainProgress ExternalRunner::progress() const {
  TrainProgress progress = board_.progress();
  const CollectiveProgress communication = live_.communication();
  progress.collective_sequence = communication.completed;
  progress.waiting_for_rank = communication.waiting_for_rank;
  progress.can_go_on = can_go_on_;
  return progress;
}

}  // namespace

std::unique_ptr<JobRunner> MakeExternalRunner(Clock& clock,
                                              const Listener& listener,
                                              ExternalRunnerOptions options) {
  return std::make_unique<ExternalRunner>(clock, listener, std::move(options));
}

}  // namespace ringmaster
