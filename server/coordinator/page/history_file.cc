#include "server/coordinator/page/history_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"

namespace ringmaster::coordinator {

v1::PageHistory ReadHistoryFile(const std::string& path) {
  v1::PageHistory history;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open() || history.ParseFromIstream(&file)) return history;
  LogEvent(LogLevel::kWarning, "page.history_unreadable",
           {{"file", path}, {"effect", "curves begin anew"}});
  return {};
}

HistoryWriter::HistoryWriter(
    std::string path, Clock& clock,
    std::function<std::optional<v1::PageHistory>()> take)
    : path_(std::move(path)), take_(std::move(take)) {
  if (!path_.empty())
    thread_.emplace(clock, kHistoryInterval, [this] { Write(); });
}

HistoryWriter::~HistoryWriter() {
  thread_.reset();
  if (!path_.empty()) Write();
}

void HistoryWriter::Write() {
  const std::optional<v1::PageHistory> history = take_();
  if (!history.has_value()) return;
  const std::string part = absl::StrCat(path_, ".part");
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  history->SerializeToOstream(&file);
  file.close();
  const bool is_written =
      file.good() && std::rename(part.c_str(), path_.c_str()) == 0;
  if (!is_written && !is_failing_) {
    LogEvent(LogLevel::kError, "page.history_failed",
             {{"file", path_}, {"error", std::strerror(errno)}});
  }
  is_failing_ = !is_written;
}

}  // namespace ringmaster::coordinator
