#include "server/ctl/commands/bundle.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/config/version.h"
#include "common/protocol/redact.h"
#include "common/status/status_macros.h"
#include "common/trace/chrome_trace.h"
#include "nlohmann/json.hpp"
#include "server/ctl/bundle/tar_gz.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/describe_view.h"
#include "server/ctl/render/log_view.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

using Json = nlohmann::ordered_json;

// All names together fit an archive: kMaxName.
constexpr size_t kMaxNamePart = 32;

// `name`, of others' making, as a part of a file's name.
std::string FileNamePart(std::string name) {
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' &&
        c != '_' && c != '.')
      c = '_';
  }
  return name.substr(0, kMaxNamePart);
}

// Coordinators of any release redact a job's spec; nobody has to rely on it.
template <typename Message>
std::string RedactedJson(Message message) {
  Redact(message);
  return ToJsonLine(message, /*is_indented=*/true);
}

// What goes into the archive, and what cannot.
class Contents {
 public:
  void Add(std::string name, std::string what, std::string content) {
    files_.push_back({std::move(name), std::move(what), std::move(content)});
  }

  void Miss(std::string what, std::string reason) {
    missing_.push_back({std::move(what), std::move(reason)});
  }

  // Adds `content`, or says why it is missing.
  void AddOrMiss(std::string name, std::string what,
                 absl::StatusOr<std::string> content) {
    if (content.ok()) {
      Add(std::move(name), std::move(what), *std::move(content));
    } else {
      Miss(std::move(what), std::string(content.status().message()));
    }
  }

  [[nodiscard]] Json Manifest() const {
    Json manifest = {{"files", Json::array()}, {"missing", Json::array()}};
    for (const File& file : files_) {
      manifest["files"].push_back({{"name", file.name},
                                   {"what", file.what},
                                   {"bytes", file.content.size()}});
    }
    for (const Missing& missing : missing_) {
      manifest["missing"].push_back(
          {{"what", missing.what}, {"reason", missing.reason}});
    }
    return manifest;
  }

  // All in a directory `top`, the manifest first.
  [[nodiscard]] absl::StatusOr<std::string> Pack(const std::string& top,
                                                 const std::string& manifest,
                                                 absl::Time now) const {
    TarGz archive(now);
    archive.Add(absl::StrCat(top, "/MANIFEST.json"), manifest);
    for (const File& file : files_)
      archive.Add(absl::StrCat(top, "/", file.name), file.content);
    return archive.Finish();
  }

 private:
  struct File {
    std::string name;
    std::string what;
    std::string content;
  };
  struct Missing {
    std::string what;
    std::string reason;
  };
  std::vector<File> files_;
  std::vector<Missing> missing_;
};

template <typename Message>
absl::StatusOr<std::string> JsonOf(const absl::StatusOr<Message>& message) {
  if (!message.ok()) return message.status();
  return RedactedJson(*message);
}

// As a file of its own.
std::string Text(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string VersionsJson(const v1::Status& status) {
  Json versions = {{"ringctl", std::string(kVersion)},
                   {"coordinator", status.coordinator().version()},
                   {"workers", Json::object()}};
  for (const v1::Worker& worker : status.workers())
    versions["workers"][worker.name()] = worker.version();
  return Text(versions);
}

// For a reader who knows neither this terminal nor this time zone.
Style PlainStyle() {
  Style style;
  style.width = 1 << 20;
  return style;
}

std::string Lines(const std::vector<std::string>& lines) {
  return lines.empty() ? "" : absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

void AddTrace(Client& client, const std::string& job, Contents& contents) {
  const std::string what = "trace of the newest steps, for ui.perfetto.dev";
  const absl::StatusOr<v1::GetTraceResponse> response =
      client.GetTrace(job, 0, 0);
  if (!response.ok()) {
    contents.Miss(what, std::string(response.status().message()));
    return;
  }
  v1::GetTraceRequest request;
  request.set_job(job);
  contents.AddOrMiss("trace.json", what, ChromeTrace(request, *response));
  for (const std::string& worker : response->missing_workers())
    contents.Miss(absl::StrCat("trace of ", worker), "it sent none");
}

void AddLogs(Client& client, const v1::GetLogsRequest& request,
             const std::string& whose, Contents& contents) {
  const absl::StatusOr<v1::GetLogsResponse> response = client.GetLogs(request);
  if (!response.ok()) {
    contents.Miss(absl::StrCat("logs of ", whose),
                  std::string(response.status().message()));
    return;
  }
  for (const v1::ProcessLog& log : response->logs()) {
    v1::GetLogsResponse only;
    *only.add_logs() = log;
    const std::string rank =
        log.rank() < 0 ? "" : absl::StrCat("rank-", log.rank(), "-");
    contents.Add(absl::StrCat("logs/", rank, FileNamePart(log.name()), ".log"),
                 absl::StrCat("last log lines of ", log.name()),
                 Lines(LogTextLines(only, /*has_names=*/false, PlainStyle())));
    for (const std::string& gap : LogGaps(only, {}))
      contents.Miss(absl::StrCat("older log lines of ", log.name()), gap);
  }
  for (const v1::MissingLog& missing : response->missing()) {
    contents.Miss(absl::StrCat("log lines of ", missing.worker()),
                  MissingLogText(missing));
  }
}

Contents Collect(Client& client, const v1::Job& job, absl::Time now) {
  const absl::StatusOr<v1::Status> status = client.GetStatus();
  const absl::StatusOr<v1::ListEventsResponse> events = client.AllEvents("");
  const absl::StatusOr<v1::ExplainJobResponse> explanation =
      client.ExplainJob(job.id());
  Contents contents;
  v1::ListEventsResponse own;
  if (events.ok()) {
    for (const v1::Event& event : events->events())
      if (event.job_id() == job.id()) *own.add_events() = event;
  }
  contents.Add(
      "description.txt", "what `ringctl describe` shows",
      Lines(DescriptionLines(
          DescribeJob(job, explanation.value_or(v1::ExplainJobResponse()),
                      status.value_or(v1::Status()), own.events()),
          now, PlainStyle())));
  contents.Add("spec.json", "the job as it was submitted, without secrets",
               RedactedJson(job.spec()));
  contents.Add("job.json", "its state, members, figures and interruptions",
               RedactedJson(job));
  contents.AddOrMiss("explanation.json", "why it is where it is",
                     JsonOf(explanation));
  contents.AddOrMiss("events.json", "events of all jobs and workers",
                     JsonOf(events));
  contents.AddOrMiss("status.json", "the coordinator, its workers and jobs",
                     JsonOf(status));
  contents.AddOrMiss("versions.json", "versions of all programs",
                     status.ok()
                         ? absl::StatusOr<std::string>(VersionsJson(*status))
                         : status.status());
  AddTrace(client, job.id(), contents);
  v1::GetLogsRequest request;
  request.set_coordinator(true);
  AddLogs(client, request, "the coordinator", contents);
  request.set_job(job.id());
  AddLogs(client, request, "its members", contents);
  return contents;
}

std::string Stamp(absl::Time time) {
  return absl::FormatTime("%Y%m%dT%H%M%SZ", time, absl::UTCTimeZone());
}

void Report(const CommandContext& context, const std::string& path,
            size_t bytes, const Json& manifest) {
  if (context.format == OutputFormat::kJson) {
    Json report = manifest;
    report["file"] = path;
    context.console.Write(Text(report));
    return;
  }
  for (const Json& missing : manifest["missing"]) {
    context.console.WriteError(absl::StrCat(
        "note: missing: ", Printable(missing["what"].get<std::string>()), ": ",
        Printable(missing["reason"].get<std::string>()), "\n"));
  }
  context.console.Write(absl::StrCat(
      "wrote ", path, " (", FormatBytes(static_cast<int64_t>(bytes)),
      "): ", manifest["files"].size() + 1,
      " files; read them before you hand them on\n"));
}

}  // namespace

void AddBundleCommand(FlagSet& flags, BundleOptions& options) {
  FlagSet& command = flags.AddCommand("bundle",
                                      "Pack what is known about a job for a "
                                      "bug report, with a manifest of what "
                                      "could be had.");
  command.AddArgument("JOB", "Id or name of the job.", /*is_required=*/true,
                      &options.job);
  command.Add({.name = "out",
               .unit = "FILE",
               .help = "Where to write it, as .tar.gz; "
                       "./ringmaster-JOB-TIME.tar.gz unless given."},
              &options.file);
  command.Add({.name = "force", .help = "Replace a file that is there."},
              &options.may_replace);
}

std::string BundleName(const std::string& job, absl::Time now) {
  return absl::StrCat("ringmaster-", FileNamePart(job), "-", Stamp(now),
                      ".tar.gz");
}

absl::StatusOr<int> RunBundle(const CommandContext& context,
                              const std::string& job, const std::string& path,
                              NewFile& file) {
  RETURN_IF_ERROR(file.Check());
  ASSIGN_OR_RETURN(const v1::Job found, context.client.GetJob(job));
  const absl::Time now = absl::Now();
  const Contents contents = Collect(context.client, found, now);
  Json manifest = {{"job", found.id()},
                   {"made", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now,
                                             absl::UTCTimeZone())},
                   {"by", std::string(kVersion)},
                   {"coordinator", context.client.address()}};
  manifest.update(contents.Manifest());
  const std::string top = absl::StrCat("ringmaster-", FileNamePart(found.id()));
  ASSIGN_OR_RETURN(const std::string archive,
                   contents.Pack(top, Text(manifest), now));
  RETURN_IF_ERROR(file.Write(archive));
  Report(context, path, archive.size(), manifest);
  return 0;
}

}  // namespace ringmaster::ctl
