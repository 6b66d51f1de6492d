#include "server/ctl/commands/checkpoint_view.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/ctl/render/table.h"

namespace ringmaster::ctl {
namespace {

using Json = nlohmann::ordered_json;

std::string NameOf(const std::string& path) {
  return Printable(std::filesystem::path(path).filename().string());
}

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// As protobuf's mapping writes them, see docs/json.md.
std::string IntegerText(int64_t value) { return absl::StrCat(value); }
std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Not cut to the terminal's width: what is wrong stands at its end.
std::string ProblemLine(const absl::Status& problem) {
  return absl::StrCat(StateOf(problem), ": ", Printable(MessageOf(problem)));
}

bool IsManifestRead(const CheckpointSummary& summary) {
  return !summary.manifest.files.empty();
}

Json ToJson(const CheckpointSummary& summary, bool is_best) {
  Json json = {{"path", summary.path},
               {"step", IntegerText(summary.step)},
               {"state", StateOf(summary.problem)},
               {"problem", MessageOf(summary.problem)},
               {"is_best", is_best}};
  if (!IsManifestRead(summary)) return json;
  const CheckpointManifest& manifest = summary.manifest;
  json["write_time"] = TimeText(manifest.creation_time);
  json["size_bytes"] = IntegerText(manifest.total_bytes());
  json["model"] = manifest.model_kind;
  json["writer_version"] = manifest.writer_version;
  json["files"] = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    json["files"].push_back(
        {{"name", file.name},
         {"size_bytes", IntegerText(file.digest.size_bytes)}});
  }
  return json;
}

Json ToJson(const UnfinishedCheckpoint& unfinished) {
  Json json = {{"path", unfinished.path},
               {"is_abandoned", unfinished.is_abandoned},
               {"size_bytes", IntegerText(unfinished.size_bytes)}};
  if (unfinished.last_change < absl::InfiniteFuture())
    json["last_change_time"] = TimeText(unfinished.last_change);
  return json;
}

std::string UnfinishedLine(const UnfinishedCheckpoint& unfinished,
                           const Style& style) {
  const std::string change =
      unfinished.last_change < absl::InfiniteFuture()
          ? absl::StrCat(", last changed ",
                         FormatTime(unfinished.last_change, style))
          : "";
  return absl::StrCat(
      NameOf(unfinished.path), ": ", FormatBytes(unfinished.size_bytes), change,
      unfinished.is_abandoned
          ? "; a leftover, which the next job that writes here removes"
          : "; being written or removed, or another host's");
}

}  // namespace

std::string StateOf(const absl::Status& problem) {
  if (problem.ok()) return "complete";
  return IsLost(problem) ? "damaged" : "unreadable";
}

std::vector<std::string> ListingLines(const CheckpointListing& listing,
                                      const Style& style) {
  std::vector<std::string> lines;
  if (listing.checkpoints.empty())
    lines.push_back(
        absl::StrCat("no checkpoints in ", Printable(listing.directory)));
  TextTable table({{"STEP", Align::kRight},
                   {"SIZE", Align::kRight},
                   {"WRITTEN"},
                   {"MODEL"},
                   {"STATE"}});
  for (const CheckpointSummary& summary : listing.checkpoints) {
    const bool is_read = IsManifestRead(summary);
    const CheckpointManifest& manifest = summary.manifest;
    table.AddRow(
        {absl::StrCat(summary.step),
         is_read ? FormatBytes(manifest.total_bytes()) : "-",
         is_read ? FormatTime(manifest.creation_time, style) : "-",
         is_read ? Printable(manifest.model_kind) : "-",
         Paint(style, summary.problem.ok() ? Color::kGreen : Color::kRed,
               summary.step == listing.best_step
                   ? absl::StrCat(StateOf(summary.problem), ", best")
                   : StateOf(summary.problem))});
  }
  if (!table.empty()) lines = table.Lines(style);
  for (const CheckpointSummary& summary : listing.checkpoints)
    if (!summary.problem.ok()) lines.push_back(ProblemLine(summary.problem));
  for (const UnfinishedCheckpoint& unfinished : listing.unfinished)
    lines.push_back(UnfinishedLine(unfinished, style));
  return lines;
}

std::vector<std::string> VerifiedLines(
    const std::string& path, const std::vector<VerifiedCheckpoint>& verified) {
  std::vector<std::string> lines;
  int64_t size_bytes = 0;
  for (const VerifiedCheckpoint& checkpoint : verified) {
    size_bytes += checkpoint.size_bytes;
    for (const absl::Status& fault : checkpoint.faults)
      lines.push_back(ProblemLine(fault));
  }
  if (!lines.empty()) return lines;
  const std::string size =
      absl::StrCat(" (", FormatBytes(size_bytes), " read)");
  const bool is_single = verified.size() == 1 && verified.front().path == path;
  return {is_single ? absl::StrCat(Printable(path), " is whole", size)
                    : absl::StrCat("all checkpoints in ", Printable(path),
                                   " are whole: ", verified.size(), size)};
}

std::vector<std::string> ExportedLines(const std::string& path,
                                       const ExportedModel& exported) {
  std::vector<std::string> lines = {
      absl::StrCat("exported ", Printable(path), " (",
                   FormatBytes(exported.size_bytes), ")")};
  for (const absl::Status& reason : exported.left_out)
    lines.push_back(absl::StrCat("left out: ", Printable(MessageOf(reason))));
  return lines;
}

std::string ListingJson(const CheckpointListing& listing) {
  Json json = {{"directory", listing.directory},
               {"checkpoints", Json::array()},
               {"unfinished", Json::array()}};
  for (const CheckpointSummary& summary : listing.checkpoints)
    json["checkpoints"].push_back(
        ToJson(summary, summary.step == listing.best_step));
  for (const UnfinishedCheckpoint& unfinished : listing.unfinished)
    json["unfinished"].push_back(ToJson(unfinished));
  return Dump(json);
}

std::string VerifiedJson(const std::vector<VerifiedCheckpoint>& verified) {
  Json json = {{"checkpoints", Json::array()}};
  for (const VerifiedCheckpoint& checkpoint : verified) {
    Json entry = {{"path", checkpoint.path}};
    if (checkpoint.step.has_value()) {
      entry["step"] = IntegerText(*checkpoint.step);
      entry["size_bytes"] = IntegerText(checkpoint.size_bytes);
    }
    entry["faults"] = Json::array();
    for (const absl::Status& fault : checkpoint.faults) {
      entry["faults"].push_back(
          {{"state", StateOf(fault)}, {"problem", MessageOf(fault)}});
    }
    json["checkpoints"].push_back(std::move(entry));
  }
  return Dump(json);
}

std::string RemovedJson(const std::string& path) {
  return Dump({{"removed", path}});
}

std::string ExportedJson(const std::string& path,
                         const ExportedModel& exported) {
  Json left_out = Json::array();
  for (const absl::Status& reason : exported.left_out)
    left_out.push_back(MessageOf(reason));
  return Dump({{"exported", path},
               {"size_bytes", IntegerText(exported.size_bytes)},
               {"left_out", std::move(left_out)}});
}

}  // namespace ringmaster::ctl
