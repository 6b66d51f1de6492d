// The file of queues (ringmaster.v1.QueueFile): read, checked, followed.
#ifndef RINGMASTER_SERVER_COORDINATOR_QUEUES_QUEUE_FILE_H_
#define RINGMASTER_SERVER_COORDINATOR_QUEUES_QUEUE_FILE_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/config/file_changes.h"
#include "ringmaster/v1/queue.pb.h"

namespace ringmaster::coordinator {

// OK if these can be the queues; INVALID_ARGUMENT says in one line what is wrong in
// which of them.
[[nodiscard]] absl::Status CheckQueues(const v1::QueueFile& file);

// Notices when the file changes. Thread-compatible.
class QueueFileWatch {
 public:
  explicit QueueFileWatch(std::string path)
      : path_(std::move(path)), changes_({path_}) {}

  // Reads the file if it has changed. INVALID_ARGUMENT with its name, once for each
  // change, if it cannot be read or CheckQueues says so; `file` stays as it was then.
  [[nodiscard]] absl::Status Poll();

  [[nodiscard]] const std::string& path() const { return path_; }
  // What it said when it was last read; nullopt: the path is empty.
  [[nodiscard]] const std::optional<v1::QueueFile>& file() const {
    return file_;
  }

 private:
  const std::string path_;
  FileChanges changes_;
  std::optional<v1::QueueFile> file_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_QUEUES_QUEUE_FILE_H_
