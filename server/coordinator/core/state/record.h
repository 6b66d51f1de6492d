// JournalRecord: the decisions of the coordinator that must outlive it.
//
// Inputs (beats, leases, connections) are never recorded: after a restart they
// come in again by themselves. The state is a fold over these records (see
// recovery.h).
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_RECORD_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_RECORD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/parameter_server/shard_placement.h"
#include "common/protocol/no_figures.h"
#include "ringmaster/v1/figures.pb.h"
#include "ringmaster/v1/queue.pb.h"
#include "ringmaster/v1/verdict.pb.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

struct JobCreatedRecord : JobTerms {
  // Rises by one with each job of this journal; the last part of `id`.
  int64_t number = 0;
  std::string id;
  std::string request_id;
  absl::Time time;
  // Who asked for it, until it is durable: the journal has the owner and, in a record
  // of its own, the change.
  Caller caller = {};
};

struct GenerationFormedRecord {
  int64_t generation = 0;
  std::string job_id;
  // By rank.
  std::vector<MemberIdentity> members;
  int64_t resume_step = 0;
  absl::Time time;
  // Nobody holds the steps after `resume_step` any more: they are lost.
  bool is_rollback = false;
  // The holders of each shard of the parameters; empty if the job has none, or
  // they are not known.
  std::vector<ShardPlacement> placements = {};
  // By rank, since which generation the member has been in the job
  // (Member::since); empty: it is not known.
  std::vector<int64_t> since = {};
  // The incarnation of the coordinator that formed it; 0: it is not known.
  uint64_t formed_by = 0;
};

struct CancelRequestedRecord {
  std::string job_id;
  std::string reason;
  absl::Time time;
};

struct VerdictReachedRecord {
  std::string job_id;
  v1::Verdict verdict;
};

struct JobEndedRecord {
  std::string job_id;
  // SUCCEEDED, FAILED or CANCELLED.
  v1::JobState state = v1::JOB_STATE_FAILED;
  int exit_code = 0;
  std::string message;
  std::optional<uint64_t> parameters_hash;
  std::optional<v1::Verdict> verdict;
  v1::TrainingFigures figures = NoFigures();
  std::optional<v1::TextSample> sample;
  // A benchmark's results.
  std::optional<v1::BenchFigures> bench;
  absl::Time time;
};

// The workers of a host are left out until `end_time` because they failed a
// job.
struct HostQuarantinedRecord {
  std::string job_id;
  std::string host_key;
  std::string host;
  std::string reason;
  absl::Time end_time;
  absl::Time time;
  // Only that job leaves them out; and, as HostQuarantine has it, why.
  bool is_of_job = false;
  int exit_code = 0;
  bool is_unfit = false;
};

// Somebody asked for a change, and it was made; ringmaster.v1.AuditEntry says what
// the fields mean.
struct AuditedRecord {
  absl::Time time = absl::InfinitePast();
  Caller caller = {};
  std::string action = {};
  std::string object = {};
  std::string request_id = {};
  std::string detail = {};
};

// The workers that `target` names are to get no job, or may again; see cordon.h.
struct CordonedRecord {
  // The name of a worker, or of a host.
  std::string target;
  bool is_lifted = false;
  // Jobs let them go, too.
  bool drains = false;
  std::string reason;
  absl::Time time;
  // The caller who asked. Only the name is kept; the rest is in a record of its own.
  Caller caller = {};
  // It drains: from then on a job lets them go even if it cannot do without them; and the
  // same on the coordinator's own clock, which the journal does not keep.
  absl::Time due_time = absl::InfiniteFuture();
  MonotonicTime due = MonotonicTime::InfiniteFuture();
};

// Somebody changed a job. Of the numbers of its workers it has both or none.
struct JobChangedRecord : JobChange {
  std::string job_id;
  std::string reason = {};
  absl::Time time = absl::InfinitePast();
  // Only the name is kept, as of CordonedRecord's.
  Caller caller = {};
  // QueuePlace::after, if it takes its place anew by this; 0: it does not.
  int64_t place_after = 0;
};

// A job has no members any more, and goes on later.
struct JobSuspendedRecord {
  std::string job_id;
  // Its last.
  int64_t generation = 0;
  // The last that was made; 0: none was.
  int64_t step = 0;
  // There is a checkpoint of it; else it is lost.
  bool is_saved = false;
  absl::Time time;
  // Job::has_told_loss.
  bool lacks_work = false;
};

// The queues as they are, and what their jobs have used.
struct QueuesChangedRecord {
  v1::QueueFile file;
  // Worker-seconds by queue, as Queue::used.
  std::map<std::string, double> used = {};
  absl::Time time = absl::InfinitePast();
  // Who asked, until it is durable; nobody if only use has changed.
  std::optional<Caller> caller = std::nullopt;
};

using JournalRecord =
    std::variant<JobCreatedRecord, GenerationFormedRecord,
                 CancelRequestedRecord, VerdictReachedRecord, JobEndedRecord,
                 HostQuarantinedRecord, AuditedRecord, CordonedRecord,
                 JobChangedRecord, JobSuspendedRecord, QueuesChangedRecord>;

// "job_created", "generation_formed", "cancel_requested", "verdict_reached",
// "job_ended", "host_quarantined", "audited", "cordoned", "job_changed",
// "job_suspended", "queues_changed": what the journal's `type` column holds.
[[nodiscard]] std::string_view TypeOf(const JournalRecord& record);
// The job that a record is about, or that it was made for; empty: none.
[[nodiscard]] const std::string& JobIdOf(const JournalRecord& record);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_RECORD_H_
