#include "worker/figures/step_figures_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/status/status_macros.h"
#include "common/text/utf8.h"

namespace ringmaster {
namespace {

// More than this is written without waiting for the second to end: samples may
// be long.
constexpr size_t kMaxBufferedBytes = size_t{1} << 20;
constexpr mode_t kDirectoryMode = 0777;  // less the umask

absl::Status CreateDirectories(const std::string& path) {
  if (ProcessFiles().MakeDirectories(path, kDirectoryMode) == 0)
    return absl::OkStatus();
  return FiguresError(
      errno, FileAccess::kWrite, path,
      absl::StrCat("cannot make the directory of the figures, ", path));
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

std::vector<ScalarFigure> FiguresOf(const StepRecord& record) {
  if (record.is_partial) {
    return {{"train/gradient_norm", record.gradient_norm},
            {"train/learning_rate", record.learning_rate}};
  }
  const PhaseSeconds& seconds = record.seconds;
  std::vector<ScalarFigure> figures = {
      {"train/loss", record.loss},
      {"train/gradient_norm", record.gradient_norm},
      {"train/learning_rate", record.learning_rate},
      {"speed/tokens_per_second", record.tokens_per_second},
      {"speed/samples_per_second", record.samples_per_second},
      {"seconds/data_wait", seconds.data_wait},
      {"seconds/forward", seconds.forward},
      {"seconds/backward", seconds.backward},
      {"seconds/communication_wait", seconds.communication_wait},
      {"seconds/commit", seconds.commit},
      {"seconds/optimizer", seconds.optimizer},
      {"seconds/checkpoint_snapshot", seconds.checkpoint_snapshot},
      {"seconds/total", seconds.total},
      {"wire/payload_bytes", static_cast<double>(record.wire_payload_bytes)},
      {"wire/theory_bytes", static_cast<double>(record.wire_theory_bytes)},
      {"cluster/world_size", static_cast<double>(record.world_size)},
      {"cluster/generation", static_cast<double>(record.generation)},
  };
  if (record.model_flops_utilization.has_value()) {
    figures.push_back(
        {"speed/model_flops_utilization", *record.model_flops_utilization});
  }
  return figures;
}

// Markdown that shows `text` as it is: in a fence of more backticks than any
// row of them inside.
std::string Verbatim(std::string_view text) {
  size_t longest = 2;
  size_t row = 0;
  for (const char c : text) {
    row = c == '`' ? row + 1 : 0;
    longest = std::max(longest, row);
  }
  const std::string fence(longest + 1, '`');
  return absl::StrCat(fence, "\n", ReplaceInvalidUtf8(text), "\n", fence, "\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepFiguresLog>> StepFiguresLog::Open(
    Options options, Clock& clock) {
  RETURN_IF_ERROR(CreateDirectories(options.directory));
  const std::string host = options.host.empty() ? HostName() : options.host;
  ASSIGN_OR_RETURN(MetricsFile metrics,
                   MetricsFile::Open(options.directory + "/metrics.jsonl",
                                     options.resume_step));
  ASSIGN_OR_RETURN(EventFile events,
                   EventFile::Create(options.directory, host,
                                     absl::ToDoubleSeconds(options.wall_time() -
                                                           absl::UnixEpoch()),
                                     options.resume_step));
  return std::unique_ptr<StepFiguresLog>(new StepFiguresLog(
      std::move(options), clock, std::move(metrics), std::move(events)));
}

StepFiguresLog::~StepFiguresLog() { Close().IgnoreError(); }

absl::Status StepFiguresLog::RecordStep(const StepRecord& record) {
  if (record.step <= last().step) return absl::OkStatus();
  const double now = UnixSeconds();
  metrics_.AppendStep(now, record);
  if (events_.Takes(record.step))
    events_.AppendScalars(now, record.step, FiguresOf(record));
  if (++unwritten_steps_ == kMostUnwrittenSteps) return Close();
  return FlushIfDue();
}

absl::Status StepFiguresLog::RecordEvaluation(int64_t step,
                                              const EvaluationRecord& record) {
  if (step <= last().evaluation) return absl::OkStatus();
  const double now = UnixSeconds();
  metrics_.AppendEvaluation(now, step, record);
  std::vector<ScalarFigure> figures = {{"evaluation/loss", record.loss}};
  const auto add = [&](const char* name, std::optional<double> figure) {
    if (figure.has_value()) figures.push_back({name, *figure});
  };
  add("evaluation/accuracy", record.accuracy);
  add("evaluation/top5_accuracy", record.top5_accuracy);
  add("evaluation/macro_f1", record.macro_f1);
  events_.AppendScalars(now, step, figures);
  return Close();
}

absl::Status StepFiguresLog::RecordSample(int64_t step, std::string_view prompt,
                                          std::string_view text) {
  if (step <= last().sample) return absl::OkStatus();
  const double now = UnixSeconds();
  metrics_.AppendSample(now, step, prompt, text);
  events_.AppendText(now, step, "sample",
                     absl::StrCat("Prompt:\n\n", Verbatim(prompt),
                                  "\nThe model goes on:\n\n", Verbatim(text)));
  return Close();
}

absl::Status StepFiguresLog::RecordCheckpoint(int64_t step,
                                              absl::Duration duration,
                                              int64_t bytes) {
  const double now = UnixSeconds();
  metrics_.AppendCheckpoint(now, step, duration, bytes);
  const ScalarFigure figures[] = {
      {"checkpoint/duration_seconds", absl::ToDoubleSeconds(duration)},
      {"checkpoint/bytes", static_cast<double>(bytes)},
  };
  events_.AppendScalars(now, step, figures);
  return FlushIfDue();
}

absl::Status StepFiguresLog::Close() {
  last_flush_ = clock_.Now();
  unwritten_steps_ = 0;
  absl::Status metrics = metrics_.Flush();
  absl::Status events = events_.Flush();
  if (metrics.ok()) return events;
  if (events.ok()) return metrics;
  return absl::Status(metrics.code(),
                      absl::StrCat(metrics.message(), "; ", events.message()));
}

double StepFiguresLog::UnixSeconds() const {
  return absl::ToDoubleSeconds(options_.wall_time() - absl::UnixEpoch());
}

absl::Status StepFiguresLog::FlushIfDue() {
  const size_t buffered = metrics_.buffered_bytes() + events_.buffered_bytes();
  if (clock_.Now() - last_flush_ < options_.flush_interval &&
      buffered < kMaxBufferedBytes) {
    return absl::OkStatus();
  }
  return Close();
}

}  // namespace ringmaster
