// JournalRecord as its message, ringmaster.v1.JournalRecord, and back.
//
// Pure. A test checks by reflection that no field is forgotten in either
// direction (record_proto_test.cc).
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_PROTO_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_PROTO_H_

#include <optional>

#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/journal.pb.h"
#include "server/coordinator/core/state/record.h"

namespace ringmaster::coordinator {

// Invalid UTF-8, which protobuf would refuse to read, is replaced by U+FFFD.
[[nodiscard]] v1::JournalRecord RecordToProto(const JournalRecord& record);

// The messages that users see of a cordon, and of an entry of the audit.
[[nodiscard]] v1::Cordon CordonProto(const CordonedRecord& record);
[[nodiscard]] v1::AuditEntry AuditEntryProto(const AuditedRecord& record);

// Returns what a job asks of its workers; no record keeps it beside the spec.
[[nodiscard]] WorkerNeeds NeedsOf(const v1::JobSpec& spec);

// nullopt if no record is set that this version knows.
[[nodiscard]] std::optional<JournalRecord> RecordFromProto(
    const v1::JournalRecord& proto);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_PROTO_H_
