#include "server/coordinator/core/life/queues.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/protocol/proto_time.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/coordinator/core/account/audit.h"
#include "server/coordinator/core/life/suspension.h"
#include "server/coordinator/core/placement/quotas.h"

namespace ringmaster::coordinator {
namespace {

constexpr absl::Duration kTurnsInterval = absl::Minutes(1);
// A coordinator that is killed forgets no more use than that of as long.
constexpr absl::Duration kUseInterval = absl::Minutes(10);
constexpr size_t kMaxListed = 10;

// The queues as they are, in a message.
v1::QueueFile FileOf(const State& state) {
  v1::QueueFile file;
  for (const auto& [name, queue] : state.queues) {
    *file.add_queues() = queue.spec;
  }
  *file.mutable_half_life() = ToProto(state.half_life);
  return file;
}

std::map<std::string, double> UseOf(const State& state) {
  std::map<std::string, double> used;
  for (const auto& [name, queue] : state.queues) used[name] = queue.used;
  return used;
}

// "default, research and 3 more".
std::string NamesOf(const State& state) {
  std::vector<std::string> names;
  for (const auto& [name, queue] : state.queues) names.push_back(name);
  if (names.empty()) names.emplace_back(kDefaultQueue);
  const size_t more = names.size() - std::min(names.size(), kMaxListed);
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

// Jobs of that owner in that queue which have not ended, and those whose creation is
// not durable yet.
int64_t CountOf(const Turn& turn, const JobTerms& terms) {
  const auto is_alike = [&](const JobTerms& other) {
    return other.owner == terms.owner && other.queue == terms.queue;
  };
  return std::ranges::count_if(turn.state.jobs,
                               [&](const auto& entry) {
                                 return !IsEnded(entry.second.state()) &&
                                        is_alike(entry.second);
                               }) +
         std::ranges::count_if(turn.outbox.in_flight, [&](const auto& entry) {
           const auto* const record =
               std::get_if<JobCreatedRecord>(&entry.second.record);
           return record != nullptr && is_alike(*record);
         });
}

// Returns true if the journal is about to have other queues.
bool IsUnderWay(const Outbox& outbox) {
  return std::ranges::any_of(outbox.in_flight, [](const auto& entry) {
    return std::holds_alternative<QueuesChangedRecord>(entry.second.record);
  });
}

absl::Status Refused(absl::Status status) {
  return WithReason(std::move(status), reason::kInvalidRequest);
}

}  // namespace

void OnSetQueues(Turn& turn, const QueuesRequested& request) {
  const State& state = turn.state;
  // Nobody waits for an answer about a file.
  std::vector<RequestToken> waiting;
  if (!request.is_from_file) waiting.push_back(request.request);
  if (!turn.config.queues_file.empty() && !request.is_from_file) {
    turn.Reply(waiting,
               Refused(absl::FailedPreconditionError(absl::StrCat(
                   "the queues are those of the coordinator's --queues_file, ",
                   turn.config.queues_file, ": change that"))),
               "");
    return;
  }
  const bool is_under_way = IsUnderWay(turn.outbox);
  State wanted;
  ApplyQueues(wanted, {.file = request.file});
  if (!is_under_way && google::protobuf::util::MessageDifferencer::Equals(
                           FileOf(wanted), FileOf(state))) {
    turn.Reply(waiting, absl::OkStatus(), "");
    return;
  }
  // The same file comes again and again.
  if (request.is_from_file && (is_under_way || !state.journal_error.empty())) {
    return;
  }
  if (!state.journal_error.empty()) {
    turn.Reply(
        waiting,
        JournalUnavailable("the change of the queues", state.journal_error),
        "");
    return;
  }
  turn.Persist(QueuesChangedRecord{.file = request.file,
                                   .used = UseOf(state),
                                   .time = turn.time,
                                   .caller = request.caller},
               waiting);
}

void OnQueuesDurable(Turn& turn, const QueuesChangedRecord& record,
                     const std::vector<RequestToken>& waiting) {
  if (!record.caller.has_value()) return;
  const std::map<std::string, double> used = UseOf(turn.state);
  ApplyQueues(turn.state, record);
  for (auto& [number, job] : turn.state.jobs) {
    job.place.borrows = false;
    job.place.turn = 0;
  }
  // Those that were about to begin may have no right to it any more.
  for (Job* const job : turn.state.ActiveJobs()) {
    if (job->state() == v1::JOB_STATE_GATHERING && job->members.empty()) {
      ReturnToQueue(turn, *job);
    }
  }
  // It has gone on since.
  for (const auto& [name, use] : used) {
    const auto it = turn.state.queues.find(name);
    if (it != turn.state.queues.end()) it->second.used = use;
  }
  turn.Touch();
  turn.Emit(v1::EVENT_SEVERITY_INFO, "pool.queues", "",
            absl::StrCat("the queues are now ", NamesOf(turn.state)));
  turn.Reply(waiting, absl::OkStatus(), "");
  turn.ScheduleSoon();
  Audit(turn, {.caller = *record.caller,
               .action = "queues",
               .detail = NamesOf(turn.state)});
}

void ApplyQueues(State& state, const QueuesChangedRecord& record) {
  state.queues.clear();
  state.half_life =
      record.file.has_half_life()
          ? std::max(FromProto(record.file.half_life()), absl::Minutes(1))
          : State().half_life;
  for (const v1::QueueSpec& spec : record.file.queues()) {
    state.queues[spec.name()].spec = spec;
  }
  if (state.queues.empty()) return;
  state.queues[std::string(kDefaultQueue)].spec.set_name(
      std::string(kDefaultQueue));
  for (const auto& [name, used] : record.used) {
    const auto queue = state.queues.find(name);
    if (queue != state.queues.end() && std::isfinite(used)) {
      queue->second.used = used;
    }
  }
}

void SaveUse(Turn& turn) {
  State& state = turn.state;
  state.turns_check = MonotonicTime::InfiniteFuture();
  if (state.queues.empty() || state.active_jobs.empty()) return;
  state.turns_check = turn.now + kTurnsInterval;
  if (turn.now - state.use_saved < kUseInterval ||
      !state.journal_error.empty() || IsUnderWay(turn.outbox)) {
    return;
  }
  state.use_saved = turn.now;
  turn.Persist(QueuesChangedRecord{
      .file = FileOf(state), .used = UseOf(state), .time = turn.time});
}

absl::Status FitsQueue(const State& state, const JobTerms& terms) {
  const Queue* const queue = QueueOf(state, terms);
  if (queue == nullptr) return absl::OkStatus();
  const v1::QueueSpec& spec = queue->spec;
  if (!spec.has_most_workers() || terms.min_workers <= spec.most_workers()) {
    return absl::OkStatus();
  }
  return Refused(absl::InvalidArgumentError(
      absl::StrCat("workers.min is ", terms.min_workers, ", and queue ",
                   spec.name(), " never has more than ", spec.most_workers())));
}

absl::Status MayEnter(const Turn& turn, const JobTerms& terms,
                      const Caller& caller) {
  const State& state = turn.state;
  const auto found = state.queues.find(terms.queue);
  if (found == state.queues.end()) {
    if (state.queues.empty() && terms.queue == kDefaultQueue) {
      return absl::OkStatus();
    }
    return Refused(absl::NotFoundError(
        absl::StrCat("there is no queue ", Quoted(terms.queue), "; there are ",
                     NamesOf(state))));
  }
  const v1::QueueSpec& spec = found->second.spec;
  if (!caller.owns_all && !spec.submitters().empty() &&
      std::ranges::find(spec.submitters(), caller.name) ==
          spec.submitters().end()) {
    return WithReason(absl::PermissionDeniedError(
                          absl::StrCat("queue ", spec.name(), " is not for ",
                                       caller.name, " (", caller.roles, ")")),
                      reason::kPermissionDenied);
  }
  RETURN_IF_ERROR(FitsQueue(state, terms));
  if (spec.has_jobs_per_submitter() &&
      CountOf(turn, terms) >= spec.jobs_per_submitter()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "queue ", spec.name(), " takes ",
        Counted(static_cast<size_t>(spec.jobs_per_submitter()), "job"),
        " of one submitter that have not ended, and has as many",
        terms.owner.empty() ? "" : absl::StrCat(" of ", terms.owner)));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster::coordinator
