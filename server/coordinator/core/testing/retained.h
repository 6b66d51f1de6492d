// Retained: a journal without the records that are needed no more.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_RETAINED_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_RETAINED_H_

#include <vector>

#include "server/coordinator/core/state/record.h"

namespace ringmaster::coordinator {

// Returns those of `records` that retention.h keeps, as it keeps them.
[[nodiscard]] std::vector<JournalRecord> Retained(
    const std::vector<JournalRecord>& records, int max_ended_jobs);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_RETAINED_H_
