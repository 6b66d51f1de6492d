#include "server/ctl/render/listing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/bench_view.h"
#include "server/ctl/render/job_table.h"
#include "server/ctl/render/job_view.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/recovery_view.h"
#include "server/ctl/render/table.h"
#include "server/ctl/render/verdict_view.h"

namespace ringmaster::ctl {
namespace {

// Names in one line.
constexpr size_t kMostNames = 16;

void Append(std::vector<std::string>& lines, std::vector<std::string> more) {
  for (std::string& line : more) lines.push_back(std::move(line));
}

std::string CountWorkers(const v1::Status& status) {
  std::map<v1::WorkerState, int> counts;
  for (const v1::Worker& worker : status.workers()) ++counts[worker.state()];
  std::vector<std::string> parts;
  parts.reserve(counts.size());
  for (const auto& [state, count] : counts)
    parts.push_back(absl::StrCat(count, " ", NameOf(state)));
  if (parts.empty()) return "workers: none";
  return absl::StrCat("workers: ", status.workers_size(), " (",
                      absl::StrJoin(parts, ", "), ")");
}

std::string ProgramLine(const v1::JobSpec& spec) {
  if (spec.has_bench()) {
    return absl::StrCat("program:  bench, ", BenchProgramText(spec.bench()));
  }
  if (spec.has_external()) {
    return absl::StrCat(
        "program:  external, ",
        Printable(absl::StrJoin(spec.external().command(), " ")));
  }
  const v1::TrainProgram& train = spec.train();
  std::string line =
      absl::StrCat("program:  train ", train.steps(), " steps of ",
                   train.global_batch(), " samples");
  if (train.data().has_text())
    absl::StrAppend(&line, ", text of ", Printable(train.data().text().path()));
  if (train.data().has_tokens())
    absl::StrAppend(&line, ", tokens of ",
                    Printable(train.data().tokens().path()));
  if (train.data().has_images())
    absl::StrAppend(&line, ", images of ",
                    Printable(train.data().images().images()));
  if (train.data().has_image_folder())
    absl::StrAppend(&line, ", images in ",
                    Printable(train.data().image_folder().path()));
  if (train.data().has_labelled_text())
    absl::StrAppend(&line, ", labelled text of ",
                    Printable(train.data().labelled_text().path()));
  if (train.data().has_synthetic()) absl::StrAppend(&line, ", synthetic data");
  return line;
}

// When the job was submitted, began and ended, a line each.
std::vector<std::string> TimeLines(const v1::Job& job, absl::Time now,
                                   const Style& style) {
  std::vector<std::string> lines;
  const auto add = [&](const char* label,
                       const google::protobuf::Timestamp& time) {
    lines.push_back(absl::StrCat(label, FormatTime(FromProto(time), style),
                                 " (", HumanDuration(now - FromProto(time)),
                                 " ago)"));
  };
  if (job.has_create_time()) add("created:  ", job.create_time());
  if (job.has_start_time()) add("began:    ", job.start_time());
  if (job.has_end_time()) add("ended:    ", job.end_time());
  return lines;
}

std::string WorkersLine(const v1::JobSpec& spec) {
  const v1::WorkerRange& range = spec.workers();
  return absl::StrCat("workers:  at least ", range.min(), ", at most ",
                      range.max());
}

// "drained: h1, 5m ago by alice, due in 1h55m: kernel update".
std::string CordonLine(const v1::Cordon& cordon, absl::Time now) {
  std::string line = absl::StrCat(
      cordon.drain() ? "drained: " : "cordoned: ", cordon.target(), ", ",
      HumanDuration(
          std::max(now - FromProto(cordon.time()), absl::ZeroDuration())),
      " ago");
  if (!cordon.caller().empty()) absl::StrAppend(&line, " by ", cordon.caller());
  if (cordon.has_due_time()) {
    const absl::Duration left = FromProto(cordon.due_time()) - now;
    absl::StrAppend(&line, left > absl::ZeroDuration()
                               ? absl::StrCat(", due in ", HumanDuration(left))
                               : ", due");
  }
  if (!cordon.reason().empty()) absl::StrAppend(&line, ": ", cordon.reason());
  return Printable(line);
}

// "IDLE", "ASSIGNED, DRAINED", "ASSIGNED, DRAINED by 2026-11-28 18:00:00".
std::string WorkerStateText(const v1::Worker& worker, const Style& style) {
  const v1::Cordon& cordon = worker.cordon();
  std::string text(NameOf(worker.state()));
  if (!worker.has_cordon()) return text;
  absl::StrAppend(&text, cordon.drain() ? ", DRAINED" : ", CORDONED");
  if (cordon.has_due_time() && !worker.job_id().empty()) {
    absl::StrAppend(&text, " by ",
                    FormatTime(FromProto(cordon.due_time()), style));
  }
  return text;
}

// The workers that the job has had, oldest first.
std::vector<std::string> MembershipLines(const v1::Job& job, absl::Time now,
                                         const Style& style) {
  TextTable table({{"  FROM"},
                   {"FOR", Align::kRight},
                   {"GEN", Align::kRight},
                   {"AFTER STEP", Align::kRight},
                   {"WORKERS"}});
  for (const v1::Membership& membership : job.memberships()) {
    const absl::Time start = FromProto(membership.start_time());
    const absl::Time end =
        membership.has_end_time() ? FromProto(membership.end_time()) : now;
    std::vector<std::string> names;
    for (const std::string& name : membership.workers())
      names.push_back(Printable(name));
    const size_t all = names.size();
    if (all > kMostNames) names.resize(kMostNames);
    table.AddRow(
        {absl::StrCat("  ", FormatTime(start, style)),
         HumanDuration(std::max(end - start, absl::ZeroDuration())),
         absl::StrCat(membership.generation()),
         absl::StrCat(membership.first_step()),
         absl::StrCat(absl::StrJoin(names, " "),
                      all > kMostNames
                          ? absl::StrCat(" and ", all - kMostNames, " more")
                          : "")});
  }
  std::vector<std::string> lines = {"workers so far:"};
  Append(lines, table.Lines(style));
  return lines;
}

}  // namespace

std::vector<std::string> PoolLines(const v1::Status& status, absl::Time now,
                                   const Style& style) {
  const v1::Coordinator& coordinator = status.coordinator();
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat(
      "coordinator on ", Printable(coordinator.host()), ", pid ",
      coordinator.pid(), ", ", Printable(coordinator.version()), ", up ",
      HumanDuration(now - FromProto(coordinator.start_time())), " since ",
      FormatTime(FromProto(coordinator.start_time()), style),
      ", last generation ", coordinator.last_generation()));
  if (!coordinator.journal_error().empty()) {
    lines.push_back(Paint(
        style, Color::kRed,
        absl::StrCat("error: ", Printable(coordinator.journal_error()),
                     "; no new generation can start until this is mended")));
  }
  if (!coordinator.other_coordinator().empty()) {
    lines.push_back(Paint(
        style, Color::kRed,
        absl::StrCat("error: ", Printable(coordinator.other_coordinator()))));
  }
  lines.push_back(CountWorkers(status));
  if (coordinator.requires_encryption())
    lines.emplace_back("data encryption: required");
  for (const v1::Quarantine& quarantine : status.quarantines()) {
    lines.push_back(
        Paint(style, Color::kYellow,
              absl::StrCat(
                  "quarantined: host ", Printable(quarantine.host()), " for ",
                  HumanDuration(std::max(FromProto(quarantine.end_time()) - now,
                                         absl::ZeroDuration())),
                  " more: ", Printable(quarantine.reason()))));
  }
  for (const v1::Cordon& cordon : status.cordons())
    lines.push_back(Paint(style, Color::kYellow, CordonLine(cordon, now)));
  return lines;
}

std::vector<std::string> StatusLines(const v1::Status& status, absl::Time now,
                                     const Style& style) {
  std::vector<std::string> lines = PoolLines(status, now, style);
  lines.push_back("");
  if (status.jobs().empty()) {
    lines.emplace_back("no jobs; submit one with: ringctl submit JOB.yaml");
  } else {
    Append(lines, JobTable(status.jobs(), /*is_wide=*/false, now, style));
  }
  for (const v1::Job& job : status.jobs()) {
    if (std::string line = CheckpointErrorLine(job, style); !line.empty())
      lines.push_back(absl::StrCat("job ", Printable(job.id()), ": ", line));
  }
  for (std::string& line : lines) line = Fit(style, line, style.width);
  return lines;
}

std::vector<std::string> JobLines(const v1::Job& job, absl::Time now,
                                  const Style& style) {
  Style whole = style;
  whole.height = 1 << 20;  // A listing scrolls: every rank is shown.
  std::vector<std::string> lines = LiveTable(job, {.now = now}, whole);
  lines.push_back("");
  if (job.spec().program_case() != v1::JobSpec::PROGRAM_NOT_SET)
    lines.push_back(ProgramLine(job.spec()));
  lines.push_back(WorkersLine(job.spec()));
  Append(lines, TimeLines(job, now, style));
  std::string told;
  if (HasEnded(job.state())) {
    told = absl::StrCat("end:      ", FinalLine(job, style));
    lines.push_back(told);
    lines.push_back(absl::StrCat("exit:     ", job.exit_code()));
  }
  if (job.has_verdict()) Append(lines, VerdictLines(job, told, style));
  if (!job.incidents().empty()) {
    const v1::Incident& last = *job.incidents().rbegin();
    for (std::string& line : HoldUpLines(last))
      lines.push_back(std::move(line));
    lines.push_back(RecoveryLine(last));
  }
  // A job that ended before the coordinator's restart has none; and a benchmark
  // or a command has no steps to count by.
  if (!job.spec().has_bench() && !job.spec().has_external() &&
      FromProto(job.goodput().total()) > absl::ZeroDuration()) {
    lines.push_back(GoodputLine(job.goodput()));
  }
  // One is what the table of ranks shows.
  if (job.memberships_size() > 1)
    Append(lines, MembershipLines(job, now, style));
  return lines;
}

std::vector<std::string> WorkerLines(const v1::Status& status,
                                     const Style& style) {
  TextTable table({{"WORKER"},
                   {"STATE"},
                   {"HOST"},
                   {"PID", Align::kRight},
                   {"DEVICE"},
                   {"JOB"},
                   {"RANK", Align::kRight},
                   {"STEP", Align::kRight},
                   {"PHASE"},
                   {"LAST BEAT", Align::kRight}});
  for (const v1::Worker& worker : status.workers()) {
    const bool has_job = !worker.job_id().empty();
    table.AddRow({MemberName(worker.name(), worker.role()),
                  WorkerStateText(worker, style), Printable(worker.host()),
                  absl::StrCat(worker.pid()), DeviceName(worker.device()),
                  has_job ? Printable(worker.job_id()) : "-",
                  has_job ? absl::StrCat(worker.rank()) : "-",
                  has_job ? absl::StrCat(worker.step()) : "-",
                  NameOf(worker.phase()),
                  HumanDuration(FromProto(worker.last_beat_age()))});
  }
  if (table.empty())
    return {"no workers; start some with: worker --coordinator=HOST:PORT"};
  return table.Lines(style);
}

std::string EventLine(const v1::Event& event, const Style& style) {
  Color color = Color::kNone;
  if (event.severity() == v1::EVENT_SEVERITY_WARNING) color = Color::kYellow;
  if (event.severity() == v1::EVENT_SEVERITY_ERROR) color = Color::kRed;
  std::string line =
      absl::StrCat(FormatTime(FromProto(event.time()), style), " ",
                   Paint(style, color, NameOf(event.severity())), " ",
                   Printable(event.type()));
  if (!event.job_id().empty())
    absl::StrAppend(&line, " ", Printable(event.job_id()));
  return absl::StrCat(line, ": ", Printable(event.message()));
}

}  // namespace ringmaster::ctl
