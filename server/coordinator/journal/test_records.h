// Records for the journal's tests, with every field set.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_TEST_RECORDS_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_TEST_RECORDS_H_

#include <cstdint>
#include <vector>

#include "server/coordinator/core/record.h"

namespace ringmaster::coordinator {

// One of each type, with every field different from its default.
[[nodiscard]] std::vector<JournalRecord> OneOfEach();

// A small record that `generation` tells from others.
[[nodiscard]] JournalRecord FormedRecord(int64_t generation);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_TEST_RECORDS_H_
