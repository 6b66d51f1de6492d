#include "server/coordinator/core/testing/retained.h"

#include "server/coordinator/core/state/retention.h"

namespace ringmaster::coordinator {

std::vector<JournalRecord> Retained(const std::vector<JournalRecord>& records,
                                    int max_ended_jobs) {
  std::vector<RecordDigest> digests;
  for (const JournalRecord& record : records) {
    digests.push_back(DigestOf(record));
  }
  const std::vector<Fate> fates = FatesOf(digests, max_ended_jobs);
  std::vector<JournalRecord> kept;
  for (size_t i = 0; i < records.size(); ++i) {
    if (fates[i] == Fate::kKeep) kept.push_back(records[i]);
    if (fates[i] == Fate::kTrim) kept.push_back(Trimmed(records[i]));
  }
  return kept;
}

}  // namespace ringmaster::coordinator
