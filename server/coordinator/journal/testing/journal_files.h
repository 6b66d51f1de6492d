// Journals on disk, for tests.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_TESTING_JOURNAL_FILES_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_TESTING_JOURNAL_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/journal/journal.h"

namespace ringmaster::coordinator {

// Makes an empty directory under the test's own.
[[nodiscard]] std::string FreshDirectory();

// The bytes of the file; none if it cannot be read.
[[nodiscard]] std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

// Appends `record` and returns the journal's answer.
[[nodiscard]] absl::StatusCode AppendAndWait(Journal& journal,
                                             JournalRecord record);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_TESTING_JOURNAL_FILES_H_
