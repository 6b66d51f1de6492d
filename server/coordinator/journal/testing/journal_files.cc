#include "server/coordinator/journal/testing/journal_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "common/sync/mutex.h"

namespace ringmaster::coordinator {

std::string FreshDirectory() {
  std::string path = ::testing::TempDir() + "/XXXXXX";
  return mkdtemp(path.data());
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

absl::StatusCode AppendAndWait(Journal& journal, JournalRecord record) {
  Mutex mutex;
  CondVar changed;
  std::optional<absl::StatusCode> answer;
  journal.Append(std::move(record), [&](const absl::Status& status) {
    MutexLock lock(mutex);
    answer = status.code();
    changed.NotifyAll();
  });
  MutexLock lock(mutex);
  while (!answer.has_value()) changed.Wait(mutex);
  return *answer;
}

}  // namespace ringmaster::coordinator
