#include "worker/figures/event_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// More runs than begin in one second on one host; it ends the search for a free
// name if the file system answers strangely.
constexpr int kMaxNames = 1000;

// Of the rate of steps, each of which doubles what lies between two.
constexpr int64_t kMostHalvings = 40;

constexpr std::string_view kPrefix = "events.out.tfevents.";

// What the event files in `directory` take; what cannot be read there counts as
// nothing.
int64_t BytesOfEvents(const std::string& directory) {
  int64_t bytes = 0;
  const auto names = ProcessFiles().List(directory);
  if (!names.has_value()) return bytes;
  for (const std::string& name : *names) {
    struct stat found = {};
    if (name.starts_with(kPrefix) &&
        ProcessFiles().Stat(absl::StrCat(directory, "/", name), found) == 0) {
      bytes += found.st_size;
    }
  }
  return bytes;
}

absl::StatusOr<AppendFile> CreateUnderFreeName(const std::string& name) {
  absl::StatusOr<AppendFile> file = AppendFile::Create(name);
  for (int i = 1; i < kMaxNames && absl::IsAlreadyExists(file.status()); ++i) {
    file = AppendFile::Create(absl::StrCat(name, ".", i));
  }
  return file;
}

}  // namespace

absl::StatusOr<EventFile> EventFile::Create(
    const std::string& directory, const std::string& host, double unix_seconds,
    int64_t resume_step, int64_t bytes_per_rate, int64_t max_bytes) {
  const int64_t bytes_before = BytesOfEvents(directory);
  ASSIGN_OR_RETURN(
      AppendFile file,
      CreateUnderFreeName(absl::StrCat(
          directory, "/", absl::string_view(kPrefix.data(), kPrefix.size()),
          static_cast<int64_t>(unix_seconds), ".", host)));
  EventFile events(std::move(file), bytes_before, bytes_per_rate, max_bytes);
  events.AppendRecord(FileVersionEvent(unix_seconds));
  events.AppendRecord(SessionStartEvent(unix_seconds, resume_step + 1));
  return events;
}

int64_t EventFile::total_bytes() const {
  return bytes_before_ + file_.size_bytes() +
         static_cast<int64_t>(file_.buffered_bytes());
}

bool EventFile::Takes(int64_t step) const {
  const int64_t halvings =
      std::min<int64_t>(total_bytes() / bytes_per_rate_, kMostHalvings);
  return step % (int64_t{1} << halvings) == 0;
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
  const auto size = static_cast<int64_t>(record_.size());
  if (total_bytes() + size <= max_bytes_) file_.Append(record_);
}

}  // namespace ringmaster
