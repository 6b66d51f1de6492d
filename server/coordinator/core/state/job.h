// Job: all that the coordinator knows of a job. Its stage (stage.h) owns what is true
// only there; what belongs together besides is a part of its own, kept by the file that
// its comment names. Thread-safety: thread-compatible; values.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_JOB_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_JOB_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/parameter_server/shard_placement.h"
#include "common/plan/collective_costs.h"
#include "common/protocol/no_figures.h"
#include "ringmaster/v1/frame_integrity.pb.h"
#include "server/coordinator/core/faults/link_faults.h"
#include "server/coordinator/core/faults/progress_model.h"
#include "server/coordinator/core/faults/proof_of_life.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/member.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/core/state/stage.h"
#include "server/coordinator/core/state/types.h"
#include "server/coordinator/core/state/worker.h"

namespace ringmaster::coordinator {

// A report about a peer that waits for an explanation.
struct SuspicionReport {
  std::string observer;
  int observer_rank = -1;
  int peer_rank = -1;
  std::string detail;
  bool is_unreached = false;  // no connection with the peer was made
  v1::LinkFailure failure = v1::LINK_FAILURE_UNSPECIFIED;
  MonotonicTime time = {};  // when it was heard
};

// One who is asked to connect to others.
struct Prober {
  std::set<int> peers = {};  // their ranks
  // Its Member::last_progress when it was asked.
  std::optional<MonotonicTime> last_progress = {};
  // With results about `peers` alone.
  std::optional<v1::Probed> answer = {};
  // Those it did not reach, and that the coordinator had not heard for a while.
  std::set<int> silent_peers = {};
};

// Members of the present generation connect to each other, because a link
// between two of them has failed; see probing.h.
struct Probing {
  MonotonicTime since;
  // All who live have answered by then.
  MonotonicTime due;
  // Nobody has reported a link: members wait for one another in vain.
  bool is_early = false;
  // Counts the generation's probes from 1: answers to others come too late.
  uint32_t number = 0;
  // An early one is over then, whoever has not answered.
  MonotonicTime over = MonotonicTime::InfiniteFuture();
  // By their ranks.
  std::map<int, Prober> probers = {};
  // Those of them that have not answered.
  size_t missing = 0;
};

// The early probes of a generation that found nothing; see probing.h.
struct EarlyProbes {
  int in_all = 0;
  // Connections of probes may stay in the queue of a port beyond the
  // generation: a member is of a release that takes them out only if it awaits
  // somebody.
  bool stay_in_queue = false;
  // Those that make it wait longer for the next one.
  int lately = 0;
  MonotonicTime last = {};
  // Before this, nobody who waits needs to be looked at.
  MonotonicTime next_look = {};
};

// See Clocks::set_back.
inline constexpr int64_t kUnknownUpdates = -1;
// See Clocks::highest.
inline constexpr int64_t kUnknownClock = std::numeric_limits<int64_t>::max();

// The purpose of a generation that makes no step, because members leave; see
// hand_over.h.
enum class Closing {
  kNone,      // it trains
  kHandOver,  // newcomers copy the state
  kSave,      // a checkpoint is written
};

// Losses of members on one host before the first step of their generation, with
// no step of a member there in between.
struct EarlyLosses {
  int count = 0;
  int64_t generation = 0;  // of the last one
};

// The flight record of an incident; see account/flight.h.
struct IncidentFlight {
  int incident = 0;
  int64_t generation = 0;  // that it ended
  int world_size = 0;      // of that
  // The workers of that generation; empty once they were asked.
  std::vector<MemberLife> members = {};
};

inline constexpr size_t kMaxIncidents = 16;
inline constexpr size_t kMaxMemberships = 32;
// In all of them, so that a job of thousands fits a message.
inline constexpr size_t kMaxMembershipNames = 8192;

// The workers that a job had for a while, for display; see account/memberships.h.
struct Membership {
  // The first with them.
  int64_t generation = 0;
  absl::Time start_time;
  // InfiniteFuture: it has them.
  absl::Time end_time = absl::InfiniteFuture();
  int64_t first_step = 0;
  // By rank.
  std::vector<std::string> workers = {};
};

// A job's place in the queue, and what follows from it; kept by scheduler.h and, where
// that is said, SetStandings (placement/quotas.h).
struct QueuePlace {
  // The last generation given out, of any job, when it took its place anew: when it was
  // resumed, or its priority or queue changed; 0: it has the one from its submission.
  int64_t after = 0;
  // The number of the job that was the first to lack workers when this one last began
  // with workers, having none, and before it in the queue; 0: none was. Not journaled:
  // a restart forgives that.
  int64_t overtook = 0;
  // Its queue is beyond its quota with it; if so, the queue's turn; and how many workers
  // other active jobs of the queue need at least, without those of a lower priority. Kept
  // by SetStandings.
  bool borrows = false;
  int turn = 0;
  int64_t needed_beside = 0;
  // What jobs need that wait for workers before it in its queue, if that has a limit.
  int64_t needed_ahead = 0;
  // When it first was the first of those that lack workers to begin. It has been so for
  // long enough, so that those that have overtaken it give way; others give it what it
  // lacks, so that idle workers are kept for it from all.
  std::optional<MonotonicTime> first_since;
  bool is_overdue = false;
  bool is_served = false;
};

// What members of the present generation say of their links; kept by training.h,
// probing.h and broken_links.h.
struct Suspicions {
  std::vector<SuspicionReport> reports;
  // The first of them that are known to be answered; see HastenSuspicions.
  size_t answered = 0;
  // The links are at fault if nothing has explained the reports by then.
  MonotonicTime deadline = kNever;
  std::optional<Probing> probing;
  uint32_t probes = 0;  // of this generation
  EarlyProbes early_probes;
};

// Members that were given up and may come back with steps that nobody else holds, and
// the waits for them; kept by absence.h.
struct Absence {
  std::vector<AbsentMember> members;
  // Until then it waits for those that went at the same time as most others, and, if
  // nobody else holds the job's steps, for any.
  MonotonicTime return_deadline = kNever;
  MonotonicTime holders_deadline = kNever;
  // When that wait began, or the last one of those whom it is for was lost; and when it
  // ends, for display.
  MonotonicTime holders_since;
  absl::Time wait_end;
  // Others hold copies that it can go on with then; those that it waits for may hold
  // newer ones.
  bool has_older_copies = false;
  // It has waited in vain for as long as it does.
  bool has_waited = false;
};

// How workers join while it trains; kept by growth.h and rehearsal.h.
struct Growth {
  // The generation that was asked to pause so that workers can join; 0: none.
  int64_t paused_generation = 0;
  // For grown generations that were lost before their first step: the wait before the
  // next attempt, and its earliest time.
  absl::Duration backoff;
  MonotonicTime not_before;
  // When the first of those that prepare to join has to be ready.
  MonotonicTime rehearsal_deadline = kNever;
};

// Where each worker has its own clock; kept by formation.h and reform.h.
struct Clocks {
  // The updates that its shards have although the clocks of those who made them were set
  // back, and that may be in no checkpoint; kUnknownUpdates: a restart forgot how many.
  // And those of the members whose clocks the next generation sets back.
  int64_t set_back = 0;
  int64_t to_set_back = 0;
  // The highest clock that any of its workers had before the present generation began;
  // kUnknownClock: a restart forgot it.
  int64_t highest = 0;
};

// What has gone wrong again and again, by which a job rests or ends; kept by reform.h
// and own_failure.h.
struct Setbacks {
  // Consecutive rollbacks without getting beyond the best step before the first of them.
  int rollbacks = 0;
  int64_t rollback_step = 0;
  // Generations formed in quick succession while the best step was this one, and when the
  // last of them was.
  int vain_generations = 0;
  int64_t vain_step = 0;
  MonotonicTime last_formed;
  // By host: how often in a row members were lost there before a first step.
  std::map<std::string, EarlyLosses> early_losses;
  // Failures of ranks by their own fault after `failed_step`, at most one a generation;
  // the last one's generation.
  int failures = 0;
  int64_t failed_step = -1;
  int64_t failed_generation = 0;
  // The processes that were members, too, when one that trained said that a field of the
  // job must be corrected: one of them makes it two who say so. No newcomer does, who may
  // be the first one under another name, or in another's place.
  using Life = std::pair<std::string, uint64_t>;  // name, incarnation
  std::set<Life> usage_witnesses;
};

// What the last of a job's incidents waits for, since when, and the highest committed
// step that was known when it began; kept by incident.h.
struct OpenIncident {
  IncidentPart part = IncidentPart::kHalt;
  MonotonicTime mark;
  int64_t best_step = 0;
};

struct Job : JobTerms {
  std::string id;
  int64_t number = 0;
  std::string request_id;

  Stage stage;
  [[nodiscard]] v1::JobState state() const { return StateOf(stage); }
  // Why it is in this stage, in a sentence.
  std::string message;
  // The last that its workers told, in this generation, of a command that was
  // lost or has failed; empty: of none.
  std::string command_loss;
  // The newest; 0 before the first. Members are by rank: members[r] has rank r.
  // Parameter servers come after the workers.
  int64_t generation = 0;
  std::vector<Member> members;
  int64_t resume_step = 0;
  v1::TrainingFigures figures = NoFigures();
  // The checkpoint that it last started from.
  std::optional<v1::Resumption> resumption;
  // The last text that the model wrote.
  std::optional<v1::TextSample> sample;
  // A benchmark's results so far.
  std::optional<v1::BenchFigures> bench;
  // The last incident.
  std::optional<v1::Verdict> verdict;
  // The last interruptions, oldest first, at most kMaxIncidents; kept by
  // incident.h.
  std::deque<v1::Incident> incidents;
  Goodput goodput;
  int exit_code = 0;
  std::optional<uint64_t> parameters_hash;
  // Oldest first, at most kMaxMemberships; in this coordinator's life, and those of
  // before that the journal still has.
  std::deque<Membership> memberships;
  absl::Time create_time;
  // When it was expected to begin, when that could first be told; InfinitePast: never,
  // or a restart forgot it.
  absl::Time predicted_start_time = absl::InfinitePast();
  // InfinitePast until it happened.
  absl::Time start_time = absl::InfinitePast();
  absl::Time end_time = absl::InfinitePast();
  // The state's revision when this job last changed.
  uint64_t revision = 0;

  // ---- Bookkeeping of the core; nothing here is shown to users.

  // Rises with every end of a job; 0 before.
  uint64_t end_order = 0;
  // The first number that was taken for a generation of this job. Of those from
  // it to `generation`, some may be other jobs'.
  int64_t first_generation = 0;
  // The generation with which it last began with workers, having none: first of all, or
  // after it was suspended.
  int64_t stay_began = 0;
  // The generation's record is durable and its members have received their
  // assignments.
  bool is_assigned = false;
  // The last one of which that is so.
  int64_t told_generation = 0;
  // A generation could not be formed because the journal fails.
  bool waits_for_journal = false;
  // Somebody has suspended it, and why: "suspended by alice: too warm"; see
  // suspension.h.
  bool is_suspended = false;
  std::string suspended_text;
  // Why all its members are let go: for that, another job, or a drain that is due; kept
  // by let_go.h.
  std::optional<std::string> gives_way;
  // The reason for which a user cancelled it.
  std::optional<std::string> cancel_reason;
  // How often its members were asked to write a checkpoint since then, after a
  // fault.
  int saves_for_cancel = 0;
  // The end is decided and on its way to the journal; the state changes, and
  // anybody hears of it, once it is durable.
  std::optional<JobEndedRecord> ending;
  // Cancel calls that came after that; they are answered with the end.
  std::vector<RequestToken> waiting_cancels;
  QueuePlace place;
  Suspicions suspicions;
  Absence absence;
  Growth growth;
  Clocks clocks;
  Setbacks setbacks;
  OpenIncident open_incident;
  // The record of the last incident which was not wanted. Its members are asked for
  // it at the deadline at the latest.
  std::optional<IncidentFlight> last_flight = std::nullopt;
  MonotonicTime flight_deadline = kNever;
  // The highest step that any member ever reported as applied, since the last
  // rollback.
  int64_t best_step = 0;
  // The generation began to train, as far as is known, so its members may hold
  // steps that none has reported.
  bool has_trained = false;
  // The costs by which its members choose algorithms, as of the last generation
  // for which there were measurements. Not journaled: a generation from before
  // a restart is not assigned to anybody any more.
  std::optional<MachineCosts> costs;
  // The integrity of frames in its generation. Not journaled, as the costs.
  v1::FrameIntegrity integrity = v1::FRAME_INTEGRITY_UNSPECIFIED;
  // The rank that the generation's newcomers copy the state from; -1: it has
  // none.
  int state_source_rank = -1;
  // The holders of each shard in the generation. Null if the job has no shards,
  // or if they are unknown: another coordinator formed the generation, and
  // neither its journal nor the members have said.
  std::shared_ptr<const std::vector<ShardPlacement>> placements;
  // The generation's purpose, if it makes no step. Not journaled, as the costs.
  Closing closing = Closing::kNone;
  // Its members have said that they are done with that.
  bool has_closed = false;
  // As many workers are enough to go on, although `min_workers` was raised beyond it while
  // it trained, as long as none of them is lost or leaves; 0: it is not so. Not journaled,
  // as the costs.
  int trains_with = 0;
  // The step whose checkpoint let the last holders go; -1: none. If the job goes
  // back to it, nothing is lost.
  int64_t saved_step = -1;
  // It could not give way, as no checkpoint had all it held, and trained on; it
  // is still asked to.
  bool has_trained_on = false;
  // It has said that work of its last generation may be lost.
  bool has_told_loss = false;
  // The step from which it was said to go on since; -1: that is so, or none was.
  int64_t promised_step = -1;
  // How long the last checkpoint took to write; zero: not known.
  absl::Duration checkpoint_duration;
  // The generation begins anew because nobody holds the steps made before.
  bool is_rollback = false;
  // Steps of generations before this one do not count: they were given up, or
  // members have counted from another step since. (Workers of a job with shards
  // may still report them.)
  int64_t counted_since = 0;
  // The job's pace as it was learned, and what its steps prove.
  ProgressModel progress;
  ProofOfLife life;
  // It has made a step, which may be lost since.
  bool has_made_step = false;
  // The hosts of the workers that have made one, up to this generation.
  std::set<std::string> proven_hosts;
  int64_t proven_generation = 0;
  // All members of some generation prepared it alike, and how.
  bool has_prepared = false;
  std::optional<PreparedAnswer> agreed;
  // Broken links since the last committed step, and pairs to keep apart.
  LinkFaults links;
  // The rank that `figures` came from.
  int figures_rank = -1;
  // The last progress of any member.
  MonotonicTime last_progress;
  // Before this, no lack of progress needs to be looked at.
  MonotonicTime progress_check;
  // When it last began to halt, had halted, was assigned or started.
  MonotonicTime turned_at;
  // Kept by goodput.h: up to when the job's time is accounted for (none before
  // its first event in this coordinator's life), and the step up to which it
  // makes again what was lost.
  std::optional<MonotonicTime> accounted_to;
  int64_t repeat_until = 0;
  // Those that are not of one stage alone; InfiniteFuture: not in force.
  MonotonicTime reattach_deadline = kNever;
  // When leavers that hand the state over have to write a checkpoint instead.
  MonotonicTime hand_over_deadline = kNever;
  // When two workers whose link was broken may be together again.
  MonotonicTime link_check = kNever;
  // The checkpoint for which all its members were let go could not be written: when
  // that may be tried again.
  MonotonicTime suspend_retry = kNever;
  // The generation is from before this coordinator's life: its members' earlier
  // reports in it are not known.
  bool is_recovered = false;
};

// MemberCount counts the members of that role, the lost ones too; AliveCount
// those that are not lost.
[[nodiscard]] int MemberCount(const Job& job, v1::Role role);
[[nodiscard]] int AliveCount(const Job& job, v1::Role role);

// The newest generation in which a member of `job` that is there has completed a step,
// and the last one that some such member has completed; zeros if there is none, or if
// that generation has made none itself.
struct NewestComplete {
  int64_t generation = 0;
  int64_t step = 0;
};
[[nodiscard]] NewestComplete NewestCompleteOf(const Job& job);
// Returns true if who gave `answer` cannot go on with the others: it lacks a step, or has
// not applied it and completed it in an earlier generation, so as another sum. It comes
// to that where members of several generations come back.
[[nodiscard]] bool IsSuperseded(const HaltedAnswer& answer,
                                const NewestComplete& newest);
// Counts the workers that are not lost and began the generation with the state.
[[nodiscard]] int SeasonedCount(const Job& job);
// Returns the fewest members of that role that `job` continues with. One
// parameter server is enough: shards are spread over more as they join.
[[nodiscard]] int LeastCount(const Job& job, v1::Role role);
// Returns the most members of that role that `job` takes. Those that leave come on
// top of it while others take over from them.
[[nodiscard]] int MostCount(const Job& job, v1::Role role);
// Returns true if members of that role hold the shards of `job`; false if it
// has none.
[[nodiscard]] bool HoldsShards(const Job& job, v1::Role role);
// Returns the role of the members that hold the state of `job`.
[[nodiscard]] v1::Role HolderRole(const Job& job);
// Returns the step at which a member of that role stands that has applied
// `applied_step`: a parameter server may be ahead of the committed step, which
// only workers report.
[[nodiscard]] int64_t CountedStep(const Job& job, v1::Role role,
                                  int64_t applied_step);
// Notes that `worker`, which is `member` of `job`, reports `step` as applied.
void NoteAppliedStep(const Job& job, Worker& worker, Member& member,
                     int64_t step);
// Returns true if the steps that `member` reports count: while it prepares for
// a generation that starts from the beginning, it may still report steps that
// were given up.
[[nodiscard]] bool CountsSteps(const Job& job, const Member& member);
// Returns true if a peer reports that its link with `rank` failed.
[[nodiscard]] bool IsSuspected(const Job& job, int rank);
// Returns true until the members of a first generation have been told about it.
[[nodiscard]] bool IsNew(const Job& job);
// What follows a halt of `job`, of the present one if it halts.
[[nodiscard]] HaltIntent IntentOf(const Job& job);
// `job` halts from now on, unless it does already.
stage::Halting& ToHalting(Job& job);
// Returns true if the members of the present generation were asked to pause.
[[nodiscard]] bool IsPausing(const Job& job);
// Returns true if `a` comes before `b` in the queue, where both are: by priority,
// then those within the quotas of their queues, then by whose turn it is beyond them,
// then in the order of their submission.
[[nodiscard]] bool IsAhead(const Job& a, const Job& b);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_JOB_H_
