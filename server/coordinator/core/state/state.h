// State: everything that the coordinator knows, as the core keeps it and the
// status shows it.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STATE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/parameter_server/shard_placement.h"
#include "common/plan/collective_costs.h"
#include "common/protocol/labels.h"
#include "common/protocol/no_figures.h"
#include "ringmaster/v1/data_identity.pb.h"
#include "ringmaster/v1/frame_integrity.pb.h"
#include "server/coordinator/core/faults/link_faults.h"
#include "server/coordinator/core/faults/progress_model.h"
#include "server/coordinator/core/faults/proof_of_life.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/core/state/stage.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

// The generation that a worker prepares for before it is a member (rehearsal.h).
struct Rehearsal {
  // In place of a generation, in what the worker is asked and says.
  int64_t number = 0;
  bool is_ready = false;
  // It has to be ready by then.
  MonotonicTime deadline;
  // The job that it is to join.
  std::string job_id = {};
};

// A worker of the pool: one with a session, or a member known from the journal
// that has not attached again (DETACHED). Workers that leave or are lost are
// removed.
struct Worker {
  std::string name;
  uint64_t incarnation = 0;
  // 0 while DETACHED.
  SessionId session = 0;
  // That of its last hello; 0: not known.
  uint64_t attempt = 0;
  // As MemberIdentity has it.
  std::string resume_key_hash = {};
  // Whose credentials its connection had, once it has one.
  Caller caller = {};
  v1::WorkerState state = v1::WORKER_STATE_IDLE;
  v1::Role role = v1::ROLE_WORKER;
  Device device;
  std::string host;
  std::string host_key;
  int64_t pid = 0;
  std::string data_address;
  std::string version;
  int protocol = 0;
  absl::Time join_time;
  // Rises with every join.
  uint64_t join_order = 0;

  // Without a job: empty, -1 and 0.
  std::string job_id;
  int rank = -1;
  // The generation that the worker is in as far as it knows; while it has not
  // been assigned the job's newest one, an older one or 0.
  int64_t generation = 0;

  // As of its last beat. `step` is the last it applied.
  int64_t step = 0;
  v1::Phase phase = v1::PHASE_IDLE;
  int64_t collective_sequence = 0;
  int waiting_for_rank = -1;
  // When its last beat came that said that it waits for nobody.
  MonotonicTime last_at_work = {};
  int64_t disk_bytes = 0;  // since its process began
  // When its certificate ends; nullopt: not soon, or it has none.
  std::optional<absl::Time> certificate_end = {};
  // It was given up by that job and is back without one, but keeps its steps as
  // of `generation`; empty: it keeps none. See absence.h.
  std::string keeps_steps_of = {};
  // Its stream ended after a silence in which its peers' steps prove that it
  // lived, so only its line to the coordinator is cut: DETACHED, and its lease
  // runs as before; see silence.h.
  bool is_cut_off = false;
  // The costs of collectives on its machine, if it has measured them.
  std::optional<MachineCosts> costs;
  bool can_rehearse = false;
  bool can_probe = false;
  bool sends_logs = false;
  bool runs_commands = false;
  // Its own and those that every worker has; see common/protocol/labels.h.
  Labels labels = {};
  int64_t memory_bytes = 0;  // that it may use; 0: a release that does not tell
  std::string log_file;      // on its host; empty: none
  // How long it stays at most, if it has said that it is to leave, and until when.
  std::optional<absl::Duration> patience = std::nullopt;
  MonotonicTime leaves_by = MonotonicTime::InfiniteFuture();
  // It is to leave, and was told that nobody could take over from it yet.
  bool is_told_to_wait = false;
  // Its job lets it go, as it is drained, or given to another job; see let_go.h.
  bool is_let_go = false;
  // It failed by its own fault, and stays in its job only until others have what it
  // alone holds; see own_failure.h.
  bool has_failed = false;
  // Its rehearsal of a job; only while the worker is IDLE or leaves.
  std::optional<Rehearsal> rehearsal = std::nullopt;
  // When any message of it came last, and when it joined.
  MonotonicTime last_heard;
  MonotonicTime joined_at;
};

struct PreparedAnswer {
  uint64_t plan_hash = 0;
  uint64_t data_fingerprint = 0;
  std::string summary;
  v1::DataIdentity data = {};
};

struct HaltedAnswer {
  int64_t applied_step = 0;
  int64_t complete_step = 0;
  // Assumed rather than reported: it came back without a generation, or has not
  // heard of one yet, so it holds no step.
  bool is_blank = false;
  // The generation in which it stood there; 0: it has not said.
  int64_t generation = 0;
  // The shards of the parameters that it holds, each once.
  std::vector<HeldShard> shards = {};
  // Copies that it has beyond its part in the generation and has not updated
  // since that began: it gives them to others, or keeps them until others have
  // theirs. They count for a shard of which there is no other copy.
  std::vector<HeldShard> given_shards = {};
  // In a job of commands its command goes on with those of however many members
  // are left.
  bool can_go_on = false;
};

struct FinishedAnswer {
  int64_t step = 0;
  uint64_t parameters_hash = 0;
  bool is_stopped = false;
};

// A rank of a job's newest generation, and what it has reported in it.
struct Member {
  MemberIdentity identity;
  // No longer part of the job. Stays in the table until the next generation, so
  // that ranks keep their place.
  bool is_lost = false;
  // Once it is lost: its last sign of life, and what ended it ("its stream
  // broke: reset by peer").
  MonotonicTime last_sign;
  std::string loss;
  // The generation in which it joined the job: what it reports about earlier
  // ones belongs to an earlier membership that is over.
  int64_t since = 0;
  // It joined the generation without the state of its resume step, which a
  // survivor copies to it.
  bool is_newcomer = false;
  // The step it last reported as applied.
  int64_t step = 0;
  // When it last made progress in this generation, or sent its first beat in
  // it.
  std::optional<MonotonicTime> last_progress;
  // The rank that it waited for most in collectives, as of its last beat; -1:
  // none.
  int awaited_rank = -1;
  double awaited_ratio = 0;
  // The figures that it last reported.
  std::shared_ptr<const v1::RankFigures> rank_figures;
  // Why its latest checkpoint in this generation could not be written; empty if it
  // was. The newest one that it wrote.
  std::string checkpoint_error;
  int64_t written_step = 0;
  std::optional<PreparedAnswer> prepared;
  std::optional<HaltedAnswer> halted;
  std::optional<FinishedAnswer> finished;
};

// A member that was given up, but whose process may live and hold the job's
// newest steps.
struct AbsentMember {
  // As it was when it was lost.
  Member member;
  // The job's generation then.
  int64_t generation = 0;
  MonotonicTime lost_at;
  // It is back, and has said what it holds.
  std::optional<HaltedAnswer> answer;
};

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

// See Job::updates_set_back.
inline constexpr int64_t kUnknownUpdates = -1;
// See Job::highest_clock.
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

// A share of the pool; see placement/quotas.h.
struct Queue {
  v1::QueueSpec spec;
  // Worker-seconds that its jobs have used; see account/queue_use.h.
  double used = 0;
  // The place of the queue among all by what it has used for its weight. Kept by
  // SetStandings.
  int turn = 0;
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
  // The last generation given out, of any job, when it took its place in the queue
  // anew: when it was resumed, or its priority or queue changed; 0: it has the one from
  // its submission.
  int64_t place_after = 0;
  // The first number that was taken for a generation of this job. Of those from
  // it to `generation`, some may be other jobs'.
  int64_t first_generation = 0;
  // The generation with which it last began with workers, having none: first of all, or
  // after it was suspended.
  int64_t stay_began = 0;
  // The number of the job that was the first to lack workers then, and before it in the
  // queue; 0: none was. Not journaled: a restart forgives that.
  int64_t overtook = 0;
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
  std::vector<SuspicionReport> suspicions;
  // The first of them that are known to be answered; see HastenSuspicions.
  size_t answered_suspicions = 0;
  std::optional<Probing> probing;
  uint32_t probes = 0;  // of this generation
  EarlyProbes early_probes;
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
  // Where each worker has its own clock: the updates that its shards have
  // although the clocks of those who made them were set back, and that may be
  // in no checkpoint; kUnknownUpdates: a restart forgot how many. And those of
  // the members whose clocks the next generation sets back.
  int64_t updates_set_back = 0;
  int64_t updates_to_set_back = 0;
  // The highest clock that any of its workers had before the present generation
  // began; kUnknownClock: a restart forgot it.
  int64_t highest_clock = 0;
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
  // Members that were given up and may come back with steps that nobody else
  // holds; see absence.h.
  std::vector<AbsentMember> absent;
  // It has waited for them in vain for as long as it does.
  bool has_waited = false;
  // When that wait ends, for display.
  absl::Time wait_end;
  // Consecutive rollbacks without getting beyond the best step before the first
  // of them.
  int rollbacks = 0;
  int64_t rollback_step = 0;
  // Generations formed in quick succession while the best step was this one, and
  // when the last of them was.
  int vain_generations = 0;
  int64_t vain_step = 0;
  MonotonicTime last_formed;
  // The generation that was asked to pause so that workers can join; 0: none.
  int64_t paused_generation = 0;
  // For grown generations that were lost before their first step: the wait
  // before the next attempt, and its earliest time.
  absl::Duration growth_backoff;
  MonotonicTime growth_not_before;
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
  // By host: how often in a row members were lost there before a first step.
  std::map<std::string, EarlyLosses> early_losses;
  // Failures of ranks by their own fault after `failed_step`, at most one a
  // generation; the last one's generation.
  int failures = 0;
  int64_t failed_step = -1;
  int64_t failed_generation = 0;
  // The processes that were members, too, when one that trained said that a field of
  // the job must be corrected: one of them makes it two who say so. No newcomer does,
  // who may be the first one under another name, or in another's place.
  using Life = std::pair<std::string, uint64_t>;  // name, incarnation
  std::set<Life> usage_witnesses;
  // Broken links since the last committed step, and pairs to keep apart.
  LinkFaults links;
  // The rank that `figures` came from.
  int figures_rank = -1;
  // Its queue is beyond its quota with it; if so, the queue's turn; and how many workers
  // other active jobs of the queue need at least, without those of a lower priority. Kept
  // by SetStandings.
  bool borrows = false;
  int turn = 0;
  int64_t needed_beside = 0;
  // What jobs need that wait for workers before it in its queue, if that has a limit;
  // kept by scheduler.h.
  int64_t needed_ahead = 0;
  // When it first was the first of those that lack workers to begin. It has been so
  // for long enough, so that those that have overtaken it give way; others give it
  // what it lacks, so that idle workers are kept for it from all: see scheduler.h.
  std::optional<MonotonicTime> first_since;
  bool is_overdue = false;
  bool is_served = false;
  // The last progress of any member.
  MonotonicTime last_progress;
  // Before this, no lack of progress needs to be looked at.
  MonotonicTime progress_check;
  // When it last began to halt, had halted, was assigned or started.
  MonotonicTime turned_at;
  // The open incident: what it waits for, since when, and the highest committed
  // step that was known when it began.
  IncidentPart incident_part = IncidentPart::kHalt;
  MonotonicTime incident_mark;
  int64_t incident_best_step = 0;
  // Kept by goodput.h: up to when the job's time is accounted for (none before
  // its first event in this coordinator's life), and the step up to which it
  // makes again what was lost.
  std::optional<MonotonicTime> accounted_to;
  int64_t repeat_until = 0;
  // Those that are not of one stage alone; InfiniteFuture: not in force.
  MonotonicTime suspicion_deadline = MonotonicTime::InfiniteFuture();
  MonotonicTime reattach_deadline = MonotonicTime::InfiniteFuture();
  // Until then it waits for absent members: for those that went at the same
  // time as most others, and, if nobody else holds the job's steps, for any.
  MonotonicTime return_deadline = MonotonicTime::InfiniteFuture();
  MonotonicTime holders_deadline = MonotonicTime::InfiniteFuture();
  // When that wait began, or the last one of those whom it is for was lost.
  MonotonicTime holders_since;
  // Others hold copies that it can go on with then; those that it waits for may
  // hold newer ones.
  bool has_older_copies = false;
  // When leavers that hand the state over have to write a checkpoint instead.
  MonotonicTime hand_over_deadline = MonotonicTime::InfiniteFuture();
  // When two workers whose link was broken may be together again.
  MonotonicTime link_check = MonotonicTime::InfiniteFuture();
  // When the first of those that prepare to join has to be ready.
  MonotonicTime rehearsal_deadline = MonotonicTime::InfiniteFuture();
  // The checkpoint for which all its members were let go could not be written: when
  // that may be tried again.
  MonotonicTime suspend_retry = MonotonicTime::InfiniteFuture();
  // The generation is from before this coordinator's life: its members' earlier
  // reports in it are not known.
  bool is_recovered = false;
};

// Returns true if it is to leave its job: by itself, or as it is let go.
[[nodiscard]] bool IsLeaving(const Worker& worker);
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

// A host whose workers are left out for a while, because they caused most of
// the incidents, or because one of them failed by its own fault.
struct HostQuarantine {
  std::string host_key;
  std::string host;
  absl::Time end_time;
  // "3 of 4 incidents within 10m".
  std::string reason;
  // The same as end_time, on the coordinator's own clock.
  MonotonicTime until;
  // The job that leaves it out; empty: all do.
  std::string job_id = {};
  // The exit code of a worker that failed by its own fault; 0: none did.
  int exit_code = 0;
  // Nobody could prepare the job there, so the job takes none of its workers
  // even if it has too few.
  bool is_unfit = false;
};

// Workers that get no job; see cordon.h.
struct Cordon : CordonedRecord {
  // It drains, and it was said that none of them has a job any more.
  bool is_said_to_be_empty = false;
  // `due` has come.
  bool is_due = false;
};

// A member of a generation was lost for a reason that may be its host's fault.
struct HostFault {
  MonotonicTime time;
  int64_t generation = 0;
  std::string host_key;
  std::string job_id;
};

// A generation that the journal does not know, as reported by its members; see
// rebuild.h.
struct Rebuilding {
  int64_t generation = 0;
  uint64_t formed_by = 0;
  // As in the first report.
  HeldJob job;
  int64_t job_number = 0;
  MonotonicTime since;
  // The worker that reported each rank; it may be lost since.
  std::map<int, std::string> workers;
  // No report is awaited after `deadline`; `is_due`: it has passed.
  MonotonicTime deadline = MonotonicTime::InfiniteFuture();
  bool is_due = false;
  // Its job's record is on its way to the journal, or its own.
  bool is_creating = false;
  bool is_recording = false;
  // Messages that its members have sent meanwhile.
  std::deque<EventBody> kept_events = {};
};

// Generations, from the first to the last, that the coordinator of that
// incarnation formed; 0: it is not known.
struct FormedRange {
  int64_t first = 0;
  int64_t last = 0;
  uint64_t formed_by = 0;
};

// A worker is in a generation that another coordinator formed and the journal
// does not know; see formed.h.
struct OtherCoordinator {
  std::string worker;
  int64_t generation = 0;
  uint64_t formed_by = 0;
  // It is newer than any that the journal has.
  bool is_newer = false;
  // The journal has others of that coordinator.
  bool is_of_former = false;
  // The id of the job that the worker is in, if that is known here; else empty.
  std::string known_job_id = {};
  // A member of that job's newest generation here has attached, then or since. (Those
  // of other jobs say nothing: they are where they were, in any copy.)
  bool is_outweighed = false;
};

// Most members of the jobs that train are silent at the same time, so the
// coordinator may be what is cut off.
struct CommonSilence {
  MonotonicTime since;
  // When those that are still silent are given up.
  MonotonicTime until;
};

struct State {
  // The coordinator's: a random number of its process life; 0: it has none.
  uint64_t incarnation = 0;
  // Rises with each change of what status shows.
  uint64_t revision = 1;
  // The last generation given out; strictly rising across restarts.
  int64_t last_generation = 0;
  // The last one of the journal that it was read from: members may tell of later
  // ones that it does not know (rebuild.h).
  int64_t recovered_generation = 0;
  // Who formed the generations of the journal, in their order. Gaps are numbers
  // that were not used, or of jobs that are forgotten.
  std::vector<FormedRange> formed;
  // The last sign of another coordinator on a copy of the journal.
  std::optional<OtherCoordinator> other;
  // The last job's number.
  int64_t last_job_number = 0;
  // The numbers below that which no job has had in this coordinator's life, from
  // each first to its last: a job that was rebuilt has left them out.
  std::map<int64_t, int64_t> unused_numbers;
  // The error that keeps decisions from becoming durable; empty if there is
  // none.
  std::string journal_error;
  bool is_shutting_down = false;
  // It was read from a journal, perhaps an empty one: workers that knew the
  // previous coordinator may come back.
  bool is_recovered = false;
  // Before this, no job begins with fewer workers than it can have.
  MonotonicTime gather_not_before;
  // By name.
  std::map<std::string, Worker, std::less<>> workers;
  // In force, in the order of their beginning.
  std::vector<HostQuarantine> quarantines;
  // The latest, oldest first; one for each generation and host.
  std::deque<HostFault> host_faults;
  // In force, by target.
  std::map<std::string, Cordon, std::less<>> cordons;
  // By name, kDefaultQueue among them; empty if none are defined.
  std::map<std::string, Queue, std::less<>> queues;
  // What queues have used that long ago counts half as much.
  absl::Duration half_life = absl::Hours(24);
  // Up to when their use is accounted for; when it was last on its way to the journal;
  // and when their turns are to be looked at.
  MonotonicTime used_to;
  MonotonicTime use_saved;
  MonotonicTime turns_check = MonotonicTime::InfiniteFuture();
  // The changes that were asked for, oldest first; see audit.h.
  std::deque<AuditedRecord> audit;
  // By number, so in the order of submission; the queue is those QUEUED (IsAhead).
  std::map<int64_t, Job> jobs;
  // The numbers of the jobs that are neither queued nor ended.
  std::set<int64_t> active_jobs;
  // The first of the queue that lacks workers to begin, and could begin if no other job
  // had any; 0: there is none. Kept by scheduler.h.
  int64_t first_lacking = 0;
  // Until then no starts are foreseen.
  MonotonicTime predict_after;
  // When that job is overdue.
  MonotonicTime overdue_check = MonotonicTime::InfiniteFuture();
  // Set by Turn::ScheduleSoon.
  bool must_schedule = false;
  // The jobs that are being rebuilt, by id; they are not active, and no other
  // job begins meanwhile.
  std::map<std::string, Rebuilding, std::less<>> rebuildings;
  // Messages that were kept while a job was rebuilt, and may be handled now.
  std::deque<EventBody> kept_events;
  // Name of the worker of each session.
  std::unordered_map<SessionId, std::string> sessions;
  // The last worker's join_order, and the last ended job's end_order.
  uint64_t last_join_order = 0;
  uint64_t last_end_order = 0;
  // When the last event was taken in.
  MonotonicTime now;
  // Before this, no other event tells of an impostor.
  MonotonicTime next_impostor_event;
  // No quarantine ends, and no cordon is due, before.
  MonotonicTime quarantine_check = MonotonicTime::InfiniteFuture();
  MonotonicTime cordon_check = MonotonicTime::InfiniteFuture();
  std::optional<CommonSilence> common_silence;
  // The coordinator was held up, or cut off: until then, streams that end did so
  // because of that.
  MonotonicTime forgiving_until;
  // No lease runs out before.
  MonotonicTime lease_check = MonotonicTime::InfiniteFuture();

  // The job that a user means by an id or a name: the live job of that name, or
  // if there is none the newest that ended.
  //   NOT_FOUND/JOB_NOT_FOUND
  //   FAILED_PRECONDITION/JOB_AMBIGUOUS  lists the live jobs of that name
  [[nodiscard]] absl::StatusOr<const Job*> LookUpJob(
      std::string_view id_or_name) const;
  // The job with that id, or null. (A name may be the id of another job.)
  const Job* FindJob(std::string_view id) const;
  Job* FindJob(std::string_view id);
  // The active jobs, in the order of their submission. The pointers last: a job
  // is forgotten only once it has ended, at the end of a later one.
  [[nodiscard]] std::vector<const Job*> ActiveJobs() const;
  [[nodiscard]] std::vector<Job*> ActiveJobs();
  // The active job that `worker` is in, as a member or as one that was lost; or
  // null.
  const Job* JobOf(const Worker& worker) const;
  Job* JobOf(const Worker& worker);
  // The worker of that name or session, or null.
  const Worker* FindWorker(std::string_view name) const;
  Worker* FindWorker(std::string_view name);
  // The quarantine of that host in force for `job`, or null. One that makes it
  // unfit comes first.
  const HostQuarantine* QuarantineOf(const Job& job,
                                     std::string_view host_key) const;
  // The cordon of that worker or of its host, or null. One that drains comes
  // first, and of two that do the one that is due earlier.
  const Cordon* CordonOf(const Worker& worker) const;
  const Worker* FindSession(SessionId session) const;
  Worker* FindSession(SessionId session);
  // The same of one; 0 if it is not in the queue.
  int QueuePosition(const Job& job) const;
};

// Returns how many jobs are before each job of the queue, one that is active included.
// Those QUEUED are in it, but for the suspended.
[[nodiscard]] std::map<const Job*, int> QueuePositions(const State& state);

// Returns true if all jobs leave that host out, or an active one does.
[[nodiscard]] bool IsInForce(const State& state,
                             const HostQuarantine& quarantine);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STATE_H_
