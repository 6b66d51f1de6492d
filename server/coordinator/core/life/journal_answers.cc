#include "server/coordinator/core/life/journal_answers.h"

#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/account/audit.h"
#include "server/coordinator/core/life/cordon.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/job_change.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/job_queue.h"
#include "server/coordinator/core/life/queues.h"
#include "server/coordinator/core/life/rebuild.h"
#include "server/coordinator/core/life/suspension.h"

namespace ringmaster::coordinator {
namespace {

// Removes and returns the record of `token`, if it is known.
std::optional<PendingRecord> Take(Outbox& outbox, PersistToken token) {
  auto node = outbox.in_flight.extract(token);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

// Carries out what waited for a record to be durable.
struct DurableVisitor {
  Turn& turn;
  const std::vector<RequestToken>& waiting;

  void operator()(const JobCreatedRecord& record) {
    OnJobDurable(turn, record, waiting);
  }
  void operator()(const GenerationFormedRecord& record) {
    if (!OnRebuiltDurable(turn, record)) OnGenerationDurable(turn, record);
  }
  void operator()(const CancelRequestedRecord& record) {
    turn.Reply(waiting, absl::OkStatus(), record.job_id);
  }
  void operator()(const VerdictReachedRecord&) {}
  void operator()(const HostQuarantinedRecord&) {}
  void operator()(const AuditedRecord& entry) { OnAudited(turn.state, entry); }
  void operator()(const CordonedRecord& record) {
    OnCordonDurable(turn, record, waiting);
  }
  void operator()(const JobChangedRecord& record) {
    OnJobChanged(turn, record, waiting);
  }
  void operator()(const JobSuspendedRecord&) {}
  void operator()(const QueuesChangedRecord& record) {
    OnQueuesDurable(turn, record, waiting);
  }
  void operator()(const JobEndedRecord& record) {
    OnEndDurable(turn, record, waiting);
  }
};

void NoteFailure(Turn& turn, const std::string& why) {
  const bool is_new = turn.state.journal_error.empty();
  turn.state.journal_error = why.empty() ? "unknown error" : why;
  turn.Touch();
  if (!is_new) return;
  turn.Emit(v1::EVENT_SEVERITY_ERROR, "journal.failed", "",
            absl::StrCat("decisions cannot be made durable: ", why,
                         ". Running jobs go on; no job is accepted and no "
                         "generation formed until the journal works again."));
}

}  // namespace

void OnPersisted(Turn& turn, const Persisted& persisted) {
  std::optional<PendingRecord> pending = Take(turn.outbox, persisted.token);
  if (!pending.has_value()) return;
  std::visit(DurableVisitor{turn, pending->waiting}, pending->record);
  ContinueRebuilding(turn);
  if (!turn.state.journal_error.empty()) OnJournalWorks(turn);
}

void OnPersistFailed(Turn& turn, const PersistFailed& failed) {
  std::optional<PendingRecord> pending = Take(turn.outbox, failed.token);
  if (!pending.has_value()) return;
  NoteFailure(turn, failed.why);
  const bool is_creation =
      std::holds_alternative<JobCreatedRecord>(pending->record);
  turn.Reply(std::exchange(pending->waiting, {}),
             JournalUnavailable(Describe(pending->record), failed.why),
             is_creation ? "" : JobIdOf(pending->record));
  if (OnRebuiltNotDurable(turn, pending->record)) return;
  // The job never was, nor was the cordon or the change.
  if (is_creation || std::holds_alternative<CordonedRecord>(pending->record) ||
      std::holds_alternative<JobChangedRecord>(pending->record) ||
      std::holds_alternative<QueuesChangedRecord>(pending->record)) {
    return;
  }
  if (const auto* const record =
          std::get_if<GenerationFormedRecord>(&pending->record)) {
    OnGenerationNotDurable(turn, *record);
    return;
  }
  if (const auto* const record =
          std::get_if<JobEndedRecord>(&pending->record)) {
    OnEndNotDurable(turn, *turn.state.FindJob(record->job_id));
  }
  turn.outbox.deferred.push_back(*std::move(pending));
}

void OnJournalWorks(Turn& turn) {
  if (turn.state.journal_error.empty()) return;
  turn.state.journal_error.clear();
  turn.Touch();
  turn.Emit(v1::EVENT_SEVERITY_INFO, "journal.recovered", "",
            "decisions are made durable again");
  for (PendingRecord& pending : std::exchange(turn.outbox.deferred, {})) {
    turn.Persist(std::move(pending.record), std::move(pending.waiting));
  }
  ContinueRebuilding(turn);
  for (Job* const job : turn.state.ActiveJobs()) {
    if (!std::exchange(job->waits_for_journal, false)) continue;
    ResolveHalt(turn, *job);
  }
  turn.ScheduleSoon();
}

}  // namespace ringmaster::coordinator
