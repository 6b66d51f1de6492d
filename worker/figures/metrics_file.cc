#include "worker/figures/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"
#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

constexpr std::string_view kLineStart = R"({"step":)";

// Builds one line in `to`, which it clears first.
class JsonLine {
 public:
  JsonLine(int64_t step, const char* kind, double unix_seconds, std::string* to)
      : to_(*to) {
    to_.assign(kLineStart);
    absl::StrAppend(&to_, step, R"(,"kind":")", kind, "\"");
    Number("time", unix_seconds);
  }

  JsonLine& Number(const char* key, double value) {
    Key(key);
    if (!std::isfinite(value)) {
      to_ += "null";
      return *this;
    }
    // The shortest text that reads back as the same number, whatever the
    // locale.
    char text[32];
    char* const end = std::to_chars(text, text + sizeof(text), value).ptr;
    to_.append(text, end);
    return *this;
  }
  JsonLine& Number(const char* key, std::optional<double> value) {
    return Number(key, value.value_or(std::nan("")));
  }
  JsonLine& Integer(const char* key, std::optional<int64_t> value) {
    Key(key);
    if (value.has_value()) {
      absl::StrAppend(&to_, *value);
    } else {
      to_ += "null";
    }
    return *this;
  }
  JsonLine& Text(const char* key, std::string_view value) {
    Key(key);
    to_ += nlohmann::json(value).dump(
        /*indent=*/-1, ' ', /*ensure_ascii=*/false,
        nlohmann::json::error_handler_t::replace);
    return *this;
  }
  const std::string& Finish() { return to_ += "}\n"; }

 private:
  void Key(const char* key) { absl::StrAppend(&to_, ",\"", key, "\":"); }

  std::string& to_;
};

// The step of a line as JsonLine writes it, or nothing.
std::optional<int64_t> StepOfLine(std::string_view line) {
  if (line.substr(0, kLineStart.size()) != kLineStart) return std::nullopt;
  line.remove_prefix(kLineStart.size());
  int64_t step = 0;
  const char* const end = line.data() + line.size();
  const auto [next, error] = std::from_chars(line.data(), end, step);
  if (error != std::errc() || next == end || *next != ',') return std::nullopt;
  return step;
}

// The contents that an existing file must get.
struct Story {
  int64_t kept_bytes = 0;  // at its start
  std::string kept_later;  // whole lines, to follow them
  int64_t removed_lines = 0;
  MetricsFile::LastSteps last;  // of the kept ones
};

// Notes the line of `step` among the last ones.
void NoteLast(std::string_view line, int64_t step,
              MetricsFile::LastSteps* last) {
  const auto note = [&](const char* kind, int64_t* of_kind) {
    std::string start(kLineStart);
    absl::StrAppend(&start, step, R"(,"kind":")", kind, "\"");
    if (line.substr(0, start.size()) == start)
      *of_kind = std::max(*of_kind, step);
  };
  note("step", &last->step);
  note("evaluation", &last->evaluation);
  note("sample", &last->sample);
}

void Sort(std::string_view line, int64_t resume_step, Story* story) {
  const bool is_whole = line.back() == '\n';
  const int64_t step = StepOfLine(line).value_or(0);
  if (!is_whole || step > resume_step) {
    ++story->removed_lines;
    return;
  }
  NoteLast(line, step, &story->last);
  if (story->removed_lines == 0) {
    story->kept_bytes += static_cast<int64_t>(line.size());
  } else {
    story->kept_later += line;
  }
}

absl::StatusOr<Story> ReadStory(const std::string& path, int64_t resume_step) {
  const auto failure = [&path](int error) {
    return FiguresError(error, FileAccess::kRead, path,
                        absl::StrCat("cannot read ", path));
  };
  const UniqueFd fd = ProcessFiles().OpenFile(path, O_RDONLY);
  if (!fd.is_open()) return failure(errno);
  // The stream closes a descriptor of its own.
  const int copy = fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return failure(errno);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fdopen(copy, "r"),
                                                             &std::fclose);
  if (file == nullptr) {
    const int error = errno;
    close(copy);
    return failure(error);
  }
  Story story;
  char* buffer = nullptr;
  size_t capacity = 0;
  ssize_t length = 0;
  while ((length = getline(&buffer, &capacity, file.get())) > 0) {
    Sort({buffer, static_cast<size_t>(length)}, resume_step, &story);
  }
  const int error = errno;
  std::free(buffer);
  if (std::ferror(file.get()) != 0) {
    return failure(error);
  }
  return story;
}

// A pipe or a device has no past, and reading it might never end.
bool IsRegularFile(const std::string& path) {
  struct stat found {};
  return ProcessFiles().Stat(path, found) == 0 && S_ISREG(found.st_mode);
}

// Goes on in the rotated file, if there is one and nothing of `path` is kept;
// else it only completes the last steps.
absl::Status ContinueRotated(const std::string& path, int64_t resume_step,
                             Story* story) {
  const std::string rotated = AppendFile::RotatedName(path);
  if (!IsRegularFile(rotated)) return absl::OkStatus();
  ASSIGN_OR_RETURN(Story before, ReadStory(rotated, resume_step));
  if (story->kept_bytes == 0 && story->kept_later.empty()) {
    // Its name without the ending is that of the file that `path` leads to.
    if (ProcessFiles().Rename(
            rotated, rotated.substr(0, rotated.size() -
                                           AppendFile::kRotated.size())) != 0) {
      return FiguresError(errno, FileAccess::kWrite, rotated,
                          absl::StrCat("cannot continue ", rotated));
    }
    before.removed_lines += story->removed_lines;
    *story = std::move(before);
    return absl::OkStatus();
  }
  MetricsFile::LastSteps& last = story->last;
  last.step = std::max(last.step, before.last.step);
  last.evaluation = std::max(last.evaluation, before.last.evaluation);
  last.sample = std::max(last.sample, before.last.sample);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MetricsFile> MetricsFile::Open(const std::string& path,
                                              int64_t resume_step,
                                              int64_t max_bytes) {
  Story story;
  if (IsRegularFile(path)) {
    ASSIGN_OR_RETURN(story, ReadStory(path, resume_step));
  }
  // A rotation that was cut short has left the rotated file alone.
  struct stat found {};
  const bool is_missing =
      ProcessFiles().Stat(path, found) != 0 && errno == ENOENT;
  if (is_missing || IsRegularFile(path)) {
    RETURN_IF_ERROR(ContinueRotated(path, resume_step, &story));
  }
  if (!IsRegularFile(path)) {
    ASSIGN_OR_RETURN(AppendFile file, AppendFile::OpenOrCreate(path));
    return MetricsFile(std::move(file), /*removed_lines=*/0, LastSteps(),
                       max_bytes);
  }
  ASSIGN_OR_RETURN(AppendFile file,
                   AppendFile::TakeOver(path, story.kept_bytes));
  file.Append(story.kept_later);
  RETURN_IF_ERROR(file.Flush());
  return MetricsFile(std::move(file), story.removed_lines, story.last,
                     max_bytes);
}

absl::Status MetricsFile::Flush() {
  RETURN_IF_ERROR(file_.Flush());
  return file_.size_bytes() < max_bytes_ ? absl::OkStatus() : file_.Rotate();
}

void MetricsFile::AppendStep(double unix_seconds, const StepRecord& record) {
  last_.step = record.step;
  const PhaseSeconds& seconds = record.seconds;
  const auto if_known = [&](int64_t bytes) {
    return record.is_partial ? std::nullopt : std::optional<int64_t>(bytes);
  };
  JsonLine line(record.step, "step", unix_seconds, &line_);
  line.Number("loss", record.loss)
      .Number("gradient_norm", record.gradient_norm)
      .Number("learning_rate", record.learning_rate)
      .Number("tokens_per_second", record.tokens_per_second)
      .Number("samples_per_second", record.samples_per_second)
      .Number("model_flops_utilization", record.model_flops_utilization)
      .Number("data_wait_seconds", seconds.data_wait)
      .Number("forward_seconds", seconds.forward)
      .Number("backward_seconds", seconds.backward)
      .Number("communication_wait_seconds", seconds.communication_wait)
      .Number("commit_seconds", seconds.commit)
      .Number("optimizer_seconds", seconds.optimizer)
      .Number("checkpoint_snapshot_seconds", seconds.checkpoint_snapshot)
      .Number("total_seconds", seconds.total)
      .Integer("wire_payload_bytes", if_known(record.wire_payload_bytes))
      .Integer("wire_theory_bytes", if_known(record.wire_theory_bytes))
      .Integer("world_size", record.world_size)
      .Integer("generation", record.generation);
  file_.Append(line.Finish());
}

void MetricsFile::AppendEvaluation(double unix_seconds, int64_t step,
                                   const EvaluationRecord& record) {
  last_.evaluation = step;
  JsonLine line(step, "evaluation", unix_seconds, &line_);
  line.Number("loss", record.loss).Number("accuracy", record.accuracy);
  if (record.top5_accuracy.has_value())
    line.Number("top5_accuracy", record.top5_accuracy);
  if (record.macro_f1.has_value()) line.Number("macro_f1", record.macro_f1);
  file_.Append(line.Finish());
}

void MetricsFile::AppendSample(double unix_seconds, int64_t step,
                               std::string_view prompt, std::string_view text) {
  last_.sample = step;
  file_.Append(JsonLine(step, "sample", unix_seconds, &line_)
                   .Text("prompt", prompt)
                   .Text("text", text)
                   .Finish());
}

void MetricsFile::AppendCheckpoint(double unix_seconds, int64_t step,
                                   absl::Duration duration, int64_t bytes) {
  file_.Append(JsonLine(step, "checkpoint", unix_seconds, &line_)
                   .Number("duration_seconds", absl::ToDoubleSeconds(duration))
                   .Integer("bytes", bytes)
                   .Finish());
}

}  // namespace ringmaster
