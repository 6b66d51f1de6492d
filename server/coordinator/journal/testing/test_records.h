// Records for the journal's tests, with every field set.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_TESTING_TEST_RECORDS_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_TESTING_TEST_RECORDS_H_

#include <cstdint>
#include <vector>

#include "google/protobuf/message.h"
#include "server/coordinator/core/state/record.h"

namespace ringmaster::coordinator {

// Sets every field of `message` and its parts, lists to one element, each to a
// value of its own; fields of a oneof stay.
void FillFields(google::protobuf::Message& message);

// One of each type, with every field different from its default.
[[nodiscard]] const std::vector<JournalRecord>& OneOfEach();

// Returns true if they are the same decision, in every field.
[[nodiscard]] bool AreEqual(const JournalRecord& a, const JournalRecord& b);

// A small record that `generation` tells from others.
[[nodiscard]] JournalRecord FormedRecord(int64_t generation);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_TESTING_TEST_RECORDS_H_
