// The page's curves on disk, so that a coordinator that is restarted goes on with them.
//
// The file is replaced as a whole, and never synced: a process that is killed loses
// what came after the last write, a machine that loses its power perhaps the file. It
// decides nothing, and must not hold up the journal, whose disk it shares.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_HISTORY_FILE_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_HISTORY_FILE_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/periodic_thread.h"
#include "ringmaster/v1/page_history.pb.h"

namespace ringmaster::coordinator {

// In the state directory.
inline constexpr char kHistoryFile[] = "page_history";

inline constexpr absl::Duration kHistoryInterval = absl::Seconds(5);

// Returns what is in the file: nothing if there is none. One that does not read is
// logged, and nothing, too.
[[nodiscard]] v1::PageHistory ReadHistoryFile(const std::string& path);

// HistoryWriter writes the file every kHistoryInterval and once at its end, whenever
// there is something new. A fault of the disk is logged when it begins.
class HistoryWriter {
 public:
  // `take` returns the curves, or nullopt if they are as at the last call. It runs on
  // a thread of the writer's, or on its destructor's. `path` empty: nothing is written.
  HistoryWriter(std::string path, Clock& clock,
                std::function<std::optional<v1::PageHistory>()> take);
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

 private:
  void Write();

  const std::string path_;
  const std::function<std::optional<v1::PageHistory>()> take_;
  bool is_failing_ = false;  // only Write uses it
  std::optional<PeriodicThread> thread_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_HISTORY_FILE_H_
