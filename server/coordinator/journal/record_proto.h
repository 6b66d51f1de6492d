// JournalRecord as its message, ringmaster.v1.JournalRecord, and back.
//
// Pure. That no field is forgotten, in either direction, is shown by reflection
// (record_proto_test.cc).
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_PROTO_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_PROTO_H_

#include <optional>

#include "ringmaster/v1/journal.pb.h"
#include "server/coordinator/core/state/record.h"

namespace ringmaster::coordinator {

// A text that is not UTF-8, which protobuf would not read again, has U+FFFD for
// what is not.
[[nodiscard]] v1::JournalRecord RecordToProto(const JournalRecord& record);

// Nothing if no record is set: a later version's.
[[nodiscard]] std::optional<JournalRecord> RecordFromProto(
    const v1::JournalRecord& proto);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_PROTO_H_
