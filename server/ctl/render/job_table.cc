#include "server/ctl/render/job_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/table.h"

namespace ringmaster::ctl {
namespace {

// A benchmark's steps are its sizes.
std::string StepCell(const v1::Job& job) {
  if (job.spec().has_bench()) {
    return absl::StrCat(job.bench().rows_size(), "/",
                        job.spec().bench().sizes_size());
  }
  const v1::TrainingFigures& figures = job.figures();
  if (figures.total_steps() == 0) return "-";
  return absl::StrCat(figures.step(), "/", figures.total_steps());
}

std::string LossCell(const v1::TrainingFigures& figures) {
  return IsMeasured(figures) ? FormatLoss(figures.loss()) : "-";
}

// The message of a job, after the time of its end.
std::string MessageCell(const v1::Job& job, const Style& style) {
  const std::string message = Printable(job.message());
  if (!job.has_end_time()) return message;
  return absl::StrCat("ended ", FormatTime(FromProto(job.end_time()), style),
                      message.empty() ? "" : ": ", message);
}

std::string LeftCell(const v1::Job& job) {
  return job.figures().has_remaining_duration() && !HasEnded(job.state())
             ? HumanDuration(FromProto(job.figures().remaining_duration()))
             : "-";
}

std::string TimeCell(bool is_known, const google::protobuf::Timestamp& time,
                     const Style& style) {
  return is_known ? FormatTime(FromProto(time), style) : "-";
}

std::vector<Column> Columns(bool is_wide) {
  std::vector<Column> columns = {{"JOB"},
                                 {"STATE"},
                                 {"GEN", Align::kRight},
                                 {"RANKS", Align::kRight},
                                 {"STEP", Align::kRight},
                                 {"LOSS", Align::kRight},
                                 {"SAMPLES/S", Align::kRight},
                                 {"TIME", Align::kRight},
                                 {"LEFT", Align::kRight}};
  if (is_wide) {
    columns.push_back({"QUEUE"});
    columns.push_back({"PRIORITY", Align::kRight});
    columns.push_back({"SUBMITTED"});
    columns.push_back({"BEGAN"});
    columns.push_back({"REQUEST ID"});
  }
  columns.push_back({"MESSAGE"});
  return columns;
}

std::vector<std::string> Row(const v1::Job& job, bool is_wide, absl::Time now,
                             const Style& style) {
  std::vector<std::string> row = {
      Printable(job.id()),
      Paint(style, ColorOf(job.state()), StateName(job)),
      absl::StrCat(job.generation()),
      absl::StrCat(RankCount(job)),
      StepCell(job),
      LossCell(job.figures()),
      IsMeasured(job.figures()) ? FormatRate(job.figures().samples_per_second())
                                : "-",
      ElapsedText(job, now),
      LeftCell(job)};
  if (is_wide) {
    row.push_back(job.queue().empty() ? "-" : Printable(job.queue()));
    row.push_back(absl::StrCat(job.priority()));
    row.push_back(TimeCell(job.has_create_time(), job.create_time(), style));
    row.push_back(
        job.has_predicted_wait()
            ? absl::StrCat("in ",
                           HumanDuration(FromProto(job.predicted_wait())))
            : TimeCell(job.has_start_time(), job.start_time(), style));
    row.push_back(job.request_id().empty() ? "-" : Printable(job.request_id()));
  }
  row.push_back(MessageCell(job, style));
  return row;
}

}  // namespace

std::vector<std::string> JobTable(
    const google::protobuf::RepeatedPtrField<v1::Job>& jobs, bool is_wide,
    absl::Time now, const Style& style) {
  TextTable table(Columns(is_wide));
  for (const v1::Job& job : jobs) table.AddRow(Row(job, is_wide, now, style));
  return table.Lines(style);
}

}  // namespace ringmaster::ctl
