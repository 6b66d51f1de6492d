#include "worker/figures/event_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// More runs than begin in one second on one host; it ends the search for a free
// name if the file system answers strangely.
constexpr int kMaxNames = 1000;

absl::StatusOr<AppendFile> CreateUnderFreeName(const std::string& name) {
  absl::StatusOr<AppendFile> file = AppendFile::Create(name);
  for (int i = 1; i < kMaxNames && absl::IsAlreadyExists(file.status()); ++i) {
    file = AppendFile::Create(absl::StrCat(name, ".", i));
  }
  return file;
}

}  // namespace

absl::StatusOr<EventFile> EventFile::Create(const std::string& directory,
                                            const std::string& host,
                                            double unix_seconds,
                                            int64_t resume_step) {
  ASSIGN_OR_RETURN(AppendFile file,
                   CreateUnderFreeName(absl::StrCat(
                       directory, "/events.out.tfevents.",
                       static_cast<int64_t>(unix_seconds), ".", host)));
  EventFile events(std::move(file));
  events.AppendRecord(FileVersionEvent(unix_seconds));
  events.AppendRecord(SessionStartEvent(unix_seconds, resume_step + 1));
  return events;
}

void EventFile::AppendScalars(double unix_seconds, int64_t step,
                              std::span<const ScalarFigure> figures) {
  AppendRecord(ScalarsEvent(unix_seconds, step, figures));
}

void EventFile::AppendText(double unix_seconds, int64_t step,
                           std::string_view tag, std::string_view markdown) {
  AppendRecord(TextEvent(unix_seconds, step, tag, markdown));
}

void EventFile::AppendRecord(std::string_view content) {
  record_.clear();
  AppendTfRecord(content, &record_);
  file_.Append(record_);
}

}  // namespace ringmaster
