#include "server/coordinator/core/state/record.h"

#include <array>

namespace ringmaster::coordinator {

std::string_view TypeOf(const JournalRecord& record) {
  static constexpr std::array<std::string_view,
                              std::variant_size_v<JournalRecord>>
      kNames = {"job_created",     "generation_formed", "cancel_requested",
                "verdict_reached", "job_ended",         "host_quarantined",
                "audited",         "cordoned",          "job_changed",
                "job_suspended",   "queues_changed"};
  return kNames[record.index()];
}

const std::string& JobIdOf(const JournalRecord& record) {
  static const std::string& none = *new std::string();
  struct Visitor {
    const std::string& operator()(const JobCreatedRecord& r) { return r.id; }
    const std::string& operator()(const GenerationFormedRecord& r) {
      return r.job_id;
    }
    const std::string& operator()(const CancelRequestedRecord& r) {
      return r.job_id;
    }
    const std::string& operator()(const VerdictReachedRecord& r) {
      return r.job_id;
    }
    const std::string& operator()(const JobEndedRecord& r) { return r.job_id; }
    const std::string& operator()(const HostQuarantinedRecord& r) {
      return r.job_id;
    }
    // It outlives the job that it may be about.
    const std::string& operator()(const AuditedRecord&) { return none; }
    const std::string& operator()(const CordonedRecord&) { return none; }
    const std::string& operator()(const QueuesChangedRecord&) { return none; }
    const std::string& operator()(const JobChangedRecord& r) {
      return r.job_id;
    }
    const std::string& operator()(const JobSuspendedRecord& r) {
      return r.job_id;
    }
  };
  return std::visit(Visitor(), record);
}

}  // namespace ringmaster::coordinator
