#include "server/ctl/render/describe_view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/labels.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/listing.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/recovery_view.h"
#include "server/ctl/render/shards_view.h"
#include "server/ctl/render/table.h"
#include "server/ctl/render/verdict_view.h"

namespace ringmaster::ctl {
namespace {

using Lines = std::vector<std::string>;

void Append(Lines& lines, Lines more) {
  for (std::string& line : more) lines.push_back(std::move(line));
}

// A part of the page under a title, after an empty line; nothing if it is empty.
void AppendPart(Lines& lines, const char* title, Lines part,
                const Style& style) {
  if (part.empty()) return;
  lines.emplace_back();
  lines.push_back(Paint(style, Color::kBold, title));
  Append(lines, std::move(part));
}

void KeepNewest(std::vector<v1::Event>& events) {
  if (events.size() > kDescribedEvents)
    events.erase(events.begin(), events.end() - kDescribedEvents);
}

Lines EventLines(const std::vector<v1::Event>& events, const Style& style) {
  Lines lines;
  for (const v1::Event& event : events)
    lines.push_back(EventLine(event, style));
  return lines;
}

Lines QuarantineLines(const std::vector<v1::Quarantine>& quarantines,
                      absl::Time now) {
  Lines lines;
  for (const v1::Quarantine& quarantine : quarantines) {
    lines.push_back(absl::StrCat(
        "host ", Printable(quarantine.host()), " for ",
        HumanDuration(std::max(FromProto(quarantine.end_time()) - now,
                               absl::ZeroDuration())),
        " more, ",
        quarantine.job_id().empty()
            ? "by all jobs"
            : absl::StrCat("by job ", Printable(quarantine.job_id())),
        ": ", Printable(quarantine.reason())));
  }
  return lines;
}

// What happened, who held the others up, and what it cost.
Lines IncidentLines(const v1::Incident& incident, const std::string& job_id,
                    const Style& style) {
  const v1::Verdict& verdict = incident.verdict();
  std::string when = verdict.has_time()
                         ? FormatTime(FromProto(verdict.time()), style)
                         : std::string("-");
  if (!job_id.empty()) absl::StrAppend(&when, " ", Printable(job_id));
  Lines lines = {absl::StrCat(when, " ", IncidentLine(verdict, style))};
  for (const std::string& line : HoldUpLines(incident))
    lines.push_back(absl::StrCat("  ", line));
  lines.push_back(absl::StrCat("  ", RecoveryLine(incident)));
  return lines;
}

std::string Ago(absl::Time time, absl::Time now, const Style& style) {
  return absl::StrCat(FormatTime(time, style), " (", HumanDuration(now - time),
                      " ago)");
}

Lines PoolTable(const JobDescription& description, absl::Time now,
                const Style& style) {
  TextTable table({{"WORKER"},
                   {"STATE"},
                   {"DEVICE"},
                   {"ADDRESS"},
                   {"VERSION"},
                   {"IN POOL", Align::kRight},
                   {"LOG FILE"}});
  std::set<std::string> found;
  for (const v1::Worker& worker : description.workers) {
    found.insert(worker.name());
    table.AddRow(
        {MemberName(worker.name(), worker.role()), NameOf(worker.state()),
         DeviceName(worker.device()), Printable(worker.data_address()),
         Printable(worker.version()),
         HumanDuration(now - FromProto(worker.join_time())),
         worker.log_file().empty() ? "-" : Printable(worker.log_file())});
  }
  for (const v1::Member& member : description.job.members()) {
    if (found.contains(member.worker())) continue;
    table.AddRow({MemberName(member.worker(), member.role()), "gone", "-",
                  Printable(member.data_address()), "-", "-", "-"});
  }
  if (table.empty()) return {};
  return table.Lines(style);
}

Lines IdentityLines(const v1::Worker& worker, absl::Time now,
                    const Style& style) {
  return {
      absl::StrCat("host:       ", Printable(worker.host()), ", pid ",
                   worker.pid(), ", device ", DeviceName(worker.device())),
      absl::StrCat("address:    ", Printable(worker.data_address())),
      absl::StrCat("version:    ", Printable(worker.version())),
      absl::StrCat("labels:     ",
                   Printable(LabelsText(
                       {worker.labels().begin(), worker.labels().end()})),
                   worker.runs_commands() ? "; runs commands" : ""),
      absl::StrCat("log file:   ", worker.log_file().empty()
                                       ? std::string("none")
                                       : Printable(worker.log_file())),
      absl::StrCat("joined:     ",
                   Ago(FromProto(worker.join_time()), now, style)),
      absl::StrCat(
          "last heard: ", HumanDuration(FromProto(worker.last_beat_age())),
          " ago, ", NameOf(worker.phase())),
  };
}

// What it does, holds and has done in its job.
Lines PartLines(const v1::Job& job, const v1::Member& member) {
  Lines lines;
  lines.push_back(absl::StrCat("job:        ", Printable(job.id()), " ",
                               NameOf(job.state()), ", generation ",
                               job.generation(), ", rank ", member.rank(),
                               " of ", job.members_size()));
  std::string holds = absl::StrCat("holds:      step ", member.step());
  if (job.figures().checkpoint_step() > 0) {
    absl::StrAppend(&holds, "; the job's last checkpoint is of step ",
                    job.figures().checkpoint_step());
  }
  lines.push_back(std::move(holds));
  lines.push_back(absl::StrCat("does:       ", PhaseCell(member)));
  if (!member.checkpoint_error().empty()) {
    lines.push_back(absl::StrCat("checkpoint: fails: ",
                                 Printable(member.checkpoint_error())));
  }
  if (!member.has_figures()) return lines;
  const v1::RankFigures& figures = member.figures();
  lines.push_back(absl::StrCat(
      "figures:    ", figures.steps(), " steps in ",
      HumanDuration(FromProto(figures.duration())), " of this generation, ",
      HumanDuration(FromProto(figures.cpu_time())), " of processor, ",
      FormatBytes(figures.peak_resident_bytes()), " of memory at most, ",
      FormatBytes(figures.sent_bytes()), " sent, ",
      FormatBytes(figures.received_bytes()), " received"));
  return lines;
}

}  // namespace

JobDescription DescribeJob(
    const v1::Job& job, const v1::ExplainJobResponse& explanation,
    const v1::Status& status,
    const google::protobuf::RepeatedPtrField<v1::Event>& events) {
  JobDescription description;
  description.job = job;
  description.explanation = explanation;
  std::set<std::string> members;
  for (const v1::Member& member : job.members())
    members.insert(member.worker());
  for (const v1::Worker& worker : status.workers())
    if (members.contains(worker.name())) description.workers.push_back(worker);
  for (const v1::Quarantine& quarantine : status.quarantines()) {
    if (quarantine.job_id().empty() || quarantine.job_id() == job.id())
      description.quarantines.push_back(quarantine);
  }
  description.events.assign(events.begin(), events.end());
  KeepNewest(description.events);
  return description;
}

WorkerDescription DescribeWorker(
    const std::string& name, const v1::Status& status,
    const google::protobuf::RepeatedPtrField<v1::Event>& events) {
  WorkerDescription description;
  description.name = name;
  for (const v1::Worker& worker : status.workers())
    if (worker.name() == name) description.worker = worker;
  for (const v1::Job& job : status.jobs()) {
    for (const v1::Incident& incident : job.incidents()) {
      if (incident.verdict().worker() == name)
        description.incidents.push_back({job.id(), incident});
    }
    if (!description.worker.has_value() ||
        job.id() != description.worker->job_id()) {
      continue;
    }
    for (const v1::Member& member : job.members()) {
      if (member.worker() != name) continue;
      description.job = job;
      description.member = member;
    }
  }
  if (description.worker.has_value()) {
    for (const v1::Quarantine& quarantine : status.quarantines()) {
      if (quarantine.host() == description.worker->host())
        description.quarantines.push_back(quarantine);
    }
  }
  for (const v1::Event& event : events)
    if (event.worker() == name) description.events.push_back(event);
  KeepNewest(description.events);
  return description;
}

std::vector<std::string> DescriptionLines(const JobDescription& description,
                                          absl::Time now, const Style& style) {
  const v1::Job& job = description.job;
  Lines lines = JobLines(job, now, style);
  v1::ExplainJobResponse why = description.explanation;
  // JobLines have these.
  why.clear_last_incident();
  why.clear_goodput();
  AppendPart(lines, "Why it is where it is", ExplainLines(why, style), style);
  AppendPart(lines, "Members", PoolTable(description, now, style), style);
  Lines incidents;
  for (const v1::Incident& incident : job.incidents())
    Append(incidents, IncidentLines(incident, "", style));
  AppendPart(lines, "Interruptions", std::move(incidents), style);
  AppendPart(lines, "Quarantined hosts",
             QuarantineLines(description.quarantines, now), style);
  AppendPart(lines, "Last events", EventLines(description.events, style),
             style);
  return lines;
}

std::vector<std::string> DescriptionLines(const WorkerDescription& description,
                                          absl::Time now, const Style& style) {
  Lines lines;
  const std::string name =
      Paint(style, Color::kBold, Printable(description.name));
  if (!description.worker.has_value()) {
    lines.push_back(
        absl::StrCat(name,
                     "  gone: no process of that name has a session with the "
                     "coordinator"));
  } else {
    const v1::Worker& worker = *description.worker;
    lines.push_back(absl::StrCat(name, "  ",
                                 worker.role() == v1::ROLE_PARAMETER_SERVER
                                     ? "parameter server"
                                     : "worker",
                                 "  ", NameOf(worker.state())));
    Append(lines, IdentityLines(worker, now, style));
    if (description.member.has_value()) {
      Append(lines, PartLines(*description.job, *description.member));
    } else {
      lines.push_back(
          absl::StrCat("job:        ", worker.job_id().empty()
                                           ? std::string("none")
                                           : Printable(worker.job_id())));
    }
  }
  Lines incidents;
  for (const JobIncident& blamed : description.incidents)
    Append(incidents, IncidentLines(blamed.incident, blamed.job_id, style));
  AppendPart(lines, "Interruptions that it was blamed for",
             std::move(incidents), style);
  AppendPart(lines, "Its host is quarantined",
             QuarantineLines(description.quarantines, now), style);
  AppendPart(lines, "Last events", EventLines(description.events, style),
             style);
  return lines;
}

}  // namespace ringmaster::ctl
