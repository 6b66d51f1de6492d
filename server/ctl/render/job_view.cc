#include "server/ctl/render/job_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/token_model.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/bench_view.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/sample_view.h"
#include "server/ctl/render/shards_view.h"
#include "server/ctl/render/table.h"
#include "server/ctl/render/verdict_view.h"

namespace ringmaster::ctl {
namespace {

constexpr int kSparklineWidth = 48;
constexpr int kBarWidth = 32;
// A prediction that is off by more is said to be wrong.
constexpr double kWrongFactor = 2;

// For values where a tenth of a percent matters.
std::string FormatAccuracy(double share) {
  return absl::StrFormat("%.1f%%", 100 * share);
}

double ShareDone(const v1::TrainingFigures& figures) {
  if (figures.total_steps() <= 0) return 0;
  return static_cast<double>(figures.step()) /
         static_cast<double>(figures.total_steps());
}

std::string StepOfTotal(const v1::TrainingFigures& figures) {
  if (figures.total_steps() <= 0) return absl::StrCat(figures.step());
  return absl::StrCat(figures.step(), "/", figures.total_steps());
}

std::string EndWord(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_SUCCEEDED:
      return "succeeded";
    case v1::JOB_STATE_FAILED:
      return "failed";
    case v1::JOB_STATE_CANCELLED:
      return "was cancelled";
    default:
      return absl::StrCat("is ", NameOf(state));
  }
}

std::string HeaderLine(const v1::Job& job, const Style& style) {
  std::string line =
      absl::StrCat(Paint(style, Color::kBold, Printable(job.id())), "  ",
                   Paint(style, ColorOf(job.state()), StateName(job)));
  if (job.generation() > 0)
    absl::StrAppend(&line, "  generation ", job.generation());
  if (job.members_size() > 0) {
    absl::StrAppend(&line, "  ", RankCounts(job));
  }
  if (job.priority() != 0)
    absl::StrAppend(&line, "  priority ", job.priority());
  // What everybody has who names none needs no words.
  if (job.queue() != "default" && !job.queue().empty())
    absl::StrAppend(&line, "  queue ", Printable(job.queue()),
                    job.borrows() ? " (borrows)" : "");
  if (job.queue_position() > 0)
    absl::StrAppend(&line, "  ", job.queue_position(),
                    " before it in the queue");
  if (job.has_predicted_wait()) {
    absl::StrAppend(&line, "  may begin in ",
                    HumanDuration(FromProto(job.predicted_wait())));
  }
  return line;
}

std::string StepLine(const v1::Job& job, absl::Time now, const Style& style) {
  const v1::TrainingFigures& figures = job.figures();
  std::string line = absl::StrCat("  step ", StepOfTotal(figures), "  ",
                                  FormatPercent(ShareDone(figures)));
  if (std::string elapsed = ElapsedText(job, now); elapsed != "-")
    absl::StrAppend(&line, "  elapsed ", elapsed);
  if (figures.has_remaining_duration() && !HasEnded(job.state())) {
    absl::StrAppend(&line, "  eta ",
                    HumanDuration(FromProto(figures.remaining_duration())));
  }
  // The numbers go first where there is little room.
  const int room = style.width - DisplayWidth(line);
  return absl::StrCat(Bar(style, ShareDone(figures),
                          std::min({kBarWidth, style.width / 2, room})),
                      line);
}

std::string LossLine(const v1::TrainingFigures& figures,
                     const JobContext& context, const Style& style) {
  std::string line = absl::StrCat("loss ", FormatLoss(figures.loss()));
  const std::string curve = Sparkline(style, context.losses, kSparklineWidth);
  if (!curve.empty())
    absl::StrAppend(&line, " ", Paint(style, Color::kCyan, curve));
  return line;
}

// The figures of an evaluation besides the loss, such as "accuracy 41.2%".
std::vector<std::string> QualityParts(const v1::TrainingFigures& figures) {
  std::vector<std::string> parts;
  const auto add = [&](bool is_there, const char* name, double share) {
    if (is_there)
      parts.push_back(absl::StrCat(name, " ", FormatAccuracy(share)));
  };
  add(figures.has_evaluation_accuracy(), "accuracy",
      figures.evaluation_accuracy());
  add(figures.has_evaluation_top5_accuracy(), "top 5",
      figures.evaluation_top5_accuracy());
  add(figures.has_evaluation_macro_f1(), "macro F1",
      figures.evaluation_macro_f1());
  return parts;
}

std::string EvaluationLine(const v1::TrainingFigures& figures) {
  std::string line =
      absl::StrCat("evaluation loss ", FormatLoss(figures.evaluation_loss()));
  for (const std::string& part : QualityParts(figures))
    absl::StrAppend(&line, ", ", part);
  return absl::StrCat(line, " at step ", figures.evaluation_step());
}

// Samples of a language model are of many targets: its tokens. Others have one.
bool CountsTokens(const v1::Job& job) {
  const v1::TrainingFigures& figures = job.figures();
  return TokenModelOf(job.spec().train().model()).has_value() ||
         figures.targets_per_second() > 1.5 * figures.samples_per_second();
}

// "81234 samples/s" as its two words.
std::pair<std::string, const char*> Rate(const v1::Job& job) {
  const bool counts_tokens =
      CountsTokens(job) && job.figures().targets_per_second() > 0;
  return {FormatRate(counts_tokens ? job.figures().targets_per_second()
                                   : job.figures().samples_per_second()),
          counts_tokens ? "tokens/s" : "samples/s"};
}

std::string PaceLine(const v1::Job& job) {
  const v1::TrainingFigures& figures = job.figures();
  const auto [rate, unit] = Rate(job);
  std::string line =
      absl::StrCat(rate, " ", unit, "  step ",
                   HumanDuration(FromProto(figures.step_duration())));
  if (figures.model_flops_utilization() > 0) {
    absl::StrAppend(&line, "  MFU ",
                    FormatPercent(figures.model_flops_utilization()));
  }
  if (figures.learning_rate() > 0)
    absl::StrAppend(&line, "  learning rate ", figures.learning_rate());
  if (figures.gradient_norm() > 0) {
    absl::StrAppend(&line, "  gradient norm ",
                    FormatLoss(figures.gradient_norm()));
  }
  return line;
}

std::string PhaseLine(const v1::PhaseDurations& phases) {
  const auto text = [](const google::protobuf::Duration& duration) {
    return HumanDuration(FromProto(duration));
  };
  return absl::StrCat(
      "data ", text(phases.data_wait()), "  forward ", text(phases.forward()),
      "  backward ", text(phases.backward()), "  exposed ",
      text(phases.communication_wait()), "  update ", text(phases.optimizer()));
}

std::string WireLine(const v1::TrainingFigures& figures) {
  std::string line =
      absl::StrCat("exposed communication ",
                   FormatPercent(figures.communication_wait_ratio()), ", data ",
                   FormatPercent(figures.data_wait_ratio()));
  if (figures.payload_sent_bytes() > 0)
    absl::StrAppend(&line, "  sent ",
                    FormatBytes(figures.payload_sent_bytes()));
  if (figures.payload_theory_bytes() > 0) {
    // 2K(N-1)/N for K bytes of gradients and N ranks.
    absl::StrAppend(
        &line, ", theory ", FormatBytes(figures.payload_theory_bytes()), " (",
        absl::StrFormat(
            "%.2f", static_cast<double>(figures.payload_sent_bytes()) /
                        static_cast<double>(figures.payload_theory_bytes())),
        "x)");
  }
  return line;
}

// ", predicted 1.8ms", and by how much if that is no use; "" without a prediction.
std::string PredictionText(absl::Duration measured, absl::Duration predicted) {
  if (predicted <= absl::ZeroDuration()) return "";
  std::string text = absl::StrCat(", predicted ", HumanDuration(predicted));
  const double ratio = absl::FDivDuration(measured, predicted);
  const double factor = std::max(ratio, 1 / ratio);
  if (factor >= kWrongFactor) {
    absl::StrAppend(&text, ", which is wrong by a factor of ",
                    FormatRate(factor));
  }
  return text;
}

// "all-reduce exchange, direct, 2.1ms a step, predicted 1.8ms".
std::string AllReduceLine(const v1::TrainingFigures& figures) {
  std::string line = "all-reduce ";
  for (int i = 0; i < figures.all_reduce_algorithms_size(); ++i) {
    absl::StrAppend(&line, NameOf(figures.all_reduce_algorithms(i)), ", ");
  }
  const absl::Duration measured = FromProto(figures.all_reduce_duration());
  return absl::StrCat(
      line, HumanDuration(measured), " a step",
      PredictionText(measured,
                     FromProto(figures.predicted_all_reduce_duration())));
}

std::string StragglerLine(const v1::Straggler& straggler, const Style& style) {
  const v1::Member& member = straggler.member();
  return Paint(
      style, Color::kYellow,
      absl::StrCat("straggler rank ", member.rank(), " (",
                   MemberName(member.worker(), member.role()), " on ",
                   Printable(member.host()), "): the others wait for it ",
                   FormatPercent(straggler.wait_ratio()), " of the time"));
}

// Appends what is there only at times: a checkpoint, samples that were left
// out.
void AppendRareParts(const v1::TrainingFigures& figures,
                     std::vector<std::string>& parts) {
  if (figures.checkpoint_step() > 0) {
    parts.push_back(
        absl::StrCat("checkpoint of step ", figures.checkpoint_step()));
  }
  if (figures.skipped_samples() > 0) {
    parts.push_back(absl::StrCat(
        figures.skipped_samples(),
        figures.skipped_samples() == 1 ? " sample" : " samples", " skipped"));
  }
}

std::string RareLine(const v1::TrainingFigures& figures) {
  std::vector<std::string> parts;
  AppendRareParts(figures, parts);
  const absl::Duration snapshot = FromProto(figures.phases().snapshot());
  if (snapshot > absl::ZeroDuration())
    parts.push_back(absl::StrCat("snapshot ", HumanDuration(snapshot)));
  return absl::StrJoin(parts, "  ");
}

// Returns what is known of a job that has made a step, or evaluated.
std::vector<std::string> FigureLines(const v1::Job& job,
                                     const JobContext& context,
                                     const Style& style) {
  if (job.spec().has_bench()) return BenchTable(job);
  const v1::TrainingFigures& figures = job.figures();
  std::vector<std::string> lines;
  if (IsMeasured(figures)) {
    lines.push_back(LossLine(figures, context, style));
    if (figures.has_evaluation_loss()) lines.push_back(EvaluationLine(figures));
    lines.push_back(PaceLine(job));
    if (job.spec().train().has_emulate_compute())
      lines.push_back("computing is emulated: the loss means nothing");
    if (FromProto(figures.phases().forward()) > absl::ZeroDuration())
      lines.push_back(PhaseLine(figures.phases()));
    lines.push_back(WireLine(figures));
    if (FromProto(figures.all_reduce_duration()) > absl::ZeroDuration())
      lines.push_back(AllReduceLine(figures));
    if (std::string line = StalenessLine(job); !line.empty())
      lines.push_back(std::move(line));
    if (job.has_straggler())
      lines.push_back(StragglerLine(job.straggler(), style));
  }
  if (std::string line = RareLine(figures); !line.empty())
    lines.push_back(std::move(line));
  if (std::string line = CheckpointErrorLine(job, style); !line.empty())
    lines.push_back(std::move(line));
  return lines;
}

// How old what is known of a member is.
std::string AgeCell(const v1::Member& member) {
  return member.has_last_heard_age()
             ? HumanDuration(FromProto(member.last_heard_age()))
             : "-";
}

// At most `room` lines (titles included) about the ranks.
std::vector<std::string> RankLines(const v1::Job& job, const Style& style,
                                   int room) {
  if (job.members().empty() || room < 2) return {};
  int shown = job.members_size();
  if (shown > room - 1) shown = std::max(0, room - 2);
  TextTable table({{"RANK", Align::kRight},
                   {"WORKER"},
                   {"HOST"},
                   {"PID", Align::kRight},
                   {"STEP", Align::kRight},
                   {"AGE", Align::kRight},
                   {"PHASE"}});
  for (int i = 0; i < shown; ++i) {
    const v1::Member& member = job.members(i);
    table.AddRow({absl::StrCat(member.rank()),
                  MemberName(member.worker(), member.role()),
                  Printable(member.host()), absl::StrCat(member.pid()),
                  // A command's steps are its own business.
                  job.spec().has_external() ? "-" : absl::StrCat(member.step()),
                  AgeCell(member), PhaseCell(member)});
  }
  std::vector<std::string> lines = table.Lines(style);
  if (shown < job.members_size())
    lines.push_back(
        absl::StrCat("... and ", job.members_size() - shown, " more ranks"));
  return lines;
}

}  // namespace

std::vector<std::string> LiveTable(const v1::Job& job,
                                   const JobContext& context,
                                   const Style& style) {
  const v1::TrainingFigures& figures = job.figures();
  std::vector<std::string> lines = {HeaderLine(job, style)};
  if (job.has_figures() && (figures.step() > 0 || figures.total_steps() > 0)) {
    lines.push_back(StepLine(job, context.now, style));
  }
  if (std::string line = ResumptionLine(job); !line.empty())
    lines.push_back(std::move(line));
  for (std::string& line : FigureLines(job, context, style))
    lines.push_back(std::move(line));
  // FinalLine has why a job failed, and more room for it.
  if (!job.message().empty() && job.state() != v1::JOB_STATE_FAILED)
    lines.push_back(Printable(job.message()));
  if (job.has_verdict() && !HasEnded(job.state())) {
    lines.push_back(IncidentLine(job.verdict(), style));
  }
  if (!context.notice.empty())
    lines.push_back(Paint(style, Color::kRed, Printable(context.notice)));
  const int room = style.height - 1 - static_cast<int>(lines.size());
  std::vector<std::string> sample;
  if (job.has_sample()) sample = SampleFrame(job.sample(), style, room / 2);
  for (std::string& line :
       RankLines(job, style, room - static_cast<int>(sample.size())))
    lines.push_back(std::move(line));
  for (std::string& line : sample) lines.push_back(std::move(line));
  if (static_cast<int>(lines.size()) > std::max(1, style.height - 1)) {
    lines.resize(static_cast<size_t>(std::max(1, style.height - 1)));
  }
  for (std::string& line : lines) line = Fit(style, line, style.width);
  return lines;
}

std::string StateLine(const v1::Job& job) {
  std::string line =
      absl::StrCat("job ", Printable(job.id()), " is ", StateName(job));
  if (job.generation() > 0)
    absl::StrAppend(&line, ", generation ", job.generation());
  if (!job.message().empty())
    absl::StrAppend(&line, ": ", Printable(job.message()));
  return line;
}

std::string CheckpointErrorLine(const v1::Job& job, const Style& style) {
  std::string line;
  int others = 0;
  for (const v1::Member& member : job.members()) {
    if (member.checkpoint_error().empty()) continue;
    if (!line.empty()) {
      ++others;
      continue;
    }
    line = absl::StrCat("checkpoints fail: rank ", member.rank(), " (",
                        MemberName(member.worker(), member.role()), " on ",
                        Printable(member.host()), ") ",
                        Printable(member.checkpoint_error()));
  }
  if (line.empty()) return "";
  if (others > 0) absl::StrAppend(&line, "; and on ", others, " more");
  return Paint(style, Color::kYellow, line);
}

std::string ResumptionLine(const v1::Job& job) {
  if (!job.has_resumption()) return "";
  const v1::Resumption& resumption = job.resumption();
  std::string line =
      absl::StrCat("resumed from step ", resumption.step(), ": checkpoint ",
                   Printable(resumption.checkpoint()));
  if (!resumption.job_id().empty())
    absl::StrAppend(&line, " of job ", Printable(resumption.job_id()));
  return line;
}

std::string ProgressLine(const v1::Job& job) {
  const v1::TrainingFigures& figures = job.figures();
  std::string line = absl::StrCat("step ", StepOfTotal(figures));
  if (!IsMeasured(figures)) return line;
  absl::StrAppend(&line, " loss ", FormatLoss(figures.loss()));
  if (figures.has_evaluation_loss() &&
      figures.evaluation_step() == figures.step()) {
    absl::StrAppend(&line, " evaluation ",
                    FormatLoss(figures.evaluation_loss()));
    for (const std::string& part : QualityParts(figures))
      absl::StrAppend(&line, " ", part);
  }
  const auto [rate, unit] = Rate(job);
  absl::StrAppend(&line, " ", unit, " ", rate, " step ",
                  HumanDuration(FromProto(figures.step_duration())), " wait ",
                  FormatPercent(figures.communication_wait_ratio()));
  if (figures.model_flops_utilization() > 0) {
    absl::StrAppend(&line, " MFU ",
                    FormatPercent(figures.model_flops_utilization()));
  }
  if (figures.learning_rate() > 0)
    absl::StrAppend(&line, " rate ", figures.learning_rate());
  if (figures.has_remaining_duration()) {
    absl::StrAppend(&line, " eta ",
                    HumanDuration(FromProto(figures.remaining_duration())));
  }
  return line;
}

std::string FinalLine(const v1::Job& job, const Style& style) {
  const v1::TrainingFigures& figures = job.figures();
  std::vector<std::string> parts;
  std::string steps =
      job.spec().has_bench()
          ? absl::StrCat(job.bench().rows_size(), " of ",
                         job.spec().bench().sizes_size(), " sizes")
      : job.spec().has_external()
          ? std::string("commands")
          : absl::StrCat(StepOfTotal(figures), " steps");
  if (job.has_start_time() && job.has_end_time()) {
    absl::StrAppend(&steps, " in ",
                    ElapsedText(job, FromProto(job.end_time())));
  }
  parts.push_back(std::move(steps));
  if (job.has_resumption())
    parts.push_back(
        absl::StrCat("resumed from step ", job.resumption().step()));
  if (IsMeasured(figures))
    parts.push_back(absl::StrCat("loss ", FormatLoss(figures.loss())));
  if (figures.has_evaluation_loss()) {
    parts.push_back(absl::StrCat("evaluation loss ",
                                 FormatLoss(figures.evaluation_loss())));
  }
  for (std::string& part : QualityParts(figures))
    parts.push_back(std::move(part));
  AppendRareParts(figures, parts);
  if (!job.parameters_hash().empty())
    parts.push_back(
        absl::StrCat("parameters ", Printable(job.parameters_hash())));
  std::string line =
      absl::StrCat("job ", Printable(job.id()), " ",
                   Paint(style, ColorOf(job.state()), EndWord(job.state())),
                   ": ", absl::StrJoin(parts, ", "));
  if (job.state() == v1::JOB_STATE_FAILED && !job.message().empty()) {
    absl::StrAppend(&line, ": ", Printable(job.message()));
  }
  return line;
}

}  // namespace ringmaster::ctl
