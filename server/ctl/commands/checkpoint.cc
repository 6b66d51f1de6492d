#include "server/ctl/commands/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/tensor/dtype.h"
#include "server/ctl/commands/checkpoint_view.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/checkpoint/export_model.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;

absl::Status Unreadable(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kUnreadable);
}

absl::Status WrongPath(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, " ", why));
}

absl::Status CheckIsDirectory(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    const std::string target = FollowLink(path);
    return Unreadable(absl::NotFoundError(absl::StrCat(
        "there is no directory ", target,
        target == path ? "" : absl::StrCat(", to which ", path, " points"))));
  }
  if (error) {
    return Unreadable(absl::UnavailableError(
        absl::StrCat("cannot read ", path, ": ", error.message())));
  }
  if (!fs::is_directory(status)) return WrongPath(path, "is not a directory");
  return absl::OkStatus();
}

bool HasManifest(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(fs::path(path) / kManifestFile, error));
}

// Where a checkpoint lies, and which it is.
struct Place {
  std::string directory;
  std::string name;
};

// Also of "DIR/step-000000120/" and of ".".
Place PlaceOf(const std::string& path) {
  fs::path normal = fs::path(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  std::error_code error;
  if (normal == "." || normal.filename() == "..")
    normal = fs::canonical(normal, error);
  const fs::path parent = normal.parent_path();
  return {parent.empty() ? "." : parent.string(), normal.filename().string()};
}

absl::StatusOr<std::vector<CheckpointSummary>> CheckpointsIn(
    const std::string& directory) {
  absl::StatusOr<std::vector<CheckpointSummary>> found =
      ListCheckpoints(directory);
  if (!found.ok()) return Unreadable(found.status());
  return found;
}

// ---- ls

absl::StatusOr<int> List(const std::string& path, OutputFormat format,
                         Console& console) {
  const Place place = PlaceOf(path);
  const std::optional<int64_t> step = StepOfCheckpointName(place.name);
  if (!step.has_value() && HasManifest(path)) {
    return WrongPath(path, absl::StrCat("is a checkpoint; give the directory ",
                                        place.directory));
  }
  CheckpointListing listing;
  listing.directory = step.has_value() ? place.directory : path;
  ASSIGN_OR_RETURN(listing.checkpoints, CheckpointsIn(listing.directory));
  listing.best_step = StepOfBest(listing.directory);
  if (step.has_value()) {
    std::erase_if(listing.checkpoints,
                  [&](const auto& summary) { return summary.step != step; });
  } else {
    absl::StatusOr<std::vector<UnfinishedCheckpoint>> unfinished =
        ListUnfinished(path);
    if (!unfinished.ok()) return Unreadable(unfinished.status());
    listing.unfinished = *std::move(unfinished);
  }
  if (format == OutputFormat::kJson) {
    console.Write(ListingJson(listing));
  } else {
    for (const std::string& line : ListingLines(listing, console.GetStyle()))
      console.Write(absl::StrCat(line, "\n"));
  }
  return static_cast<int>(ExitCode::kDone);
}

// ---- verify

VerifiedCheckpoint Verified(const std::string& path) {
  VerifiedCheckpoint verified;
  verified.path = path;
  const absl::StatusOr<CheckpointManifest> manifest =
      ReadCheckpointManifest(path);
  if (!manifest.ok()) {
    verified.faults.push_back(manifest.status());
    return verified;
  }
  verified.step = manifest->step;
  verified.size_bytes = manifest->total_bytes();
  verified.faults = FindFaults(path, *manifest);
  return verified;
}

// The checkpoint at `path`, or all below it.
absl::StatusOr<std::vector<std::string>> PathsToVerify(
    const std::string& path) {
  if (HasManifest(path) || StepOfCheckpointName(PlaceOf(path).name).has_value())
    return std::vector<std::string>{path};
  ASSIGN_OR_RETURN(const std::vector<CheckpointSummary> found,
                   CheckpointsIn(path));
  if (found.empty()) {
    return Unreadable(absl::NotFoundError(
        absl::StrCat(path, " is not a checkpoint, and holds none")));
  }
  std::vector<std::string> paths;
  for (const CheckpointSummary& summary : found) paths.push_back(summary.path);
  return paths;
}

ExitCode CodeOf(const std::vector<VerifiedCheckpoint>& verified) {
  ExitCode code = ExitCode::kDone;
  for (const VerifiedCheckpoint& checkpoint : verified) {
    for (const absl::Status& fault : checkpoint.faults) {
      if (IsLost(fault)) return ExitCode::kCheckpointCorrupt;
      code = ExitCode::kUnreadable;
    }
  }
  return code;
}

absl::StatusOr<int> Verify(const std::string& path, OutputFormat format,
                           Console& console) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, PathsToVerify(path));
  std::vector<VerifiedCheckpoint> verified;
  for (const std::string& one : paths) verified.push_back(Verified(one));
  if (format == OutputFormat::kJson) {
    console.Write(VerifiedJson(verified));
  } else {
    for (const std::string& line : VerifiedLines(path, verified))
      console.Write(absl::StrCat(line, "\n"));
  }
  return static_cast<int>(CodeOf(verified));
}

// ---- rm

// Refuses the checkpoint that a job would resume from, the one that it could resume from
// once it can be read, and the best.
absl::Status CheckIsSpare(const std::string& path, const Place& place,
                          int64_t step) {
  if (!HasManifest(path)) {
    return WrongPath(
        path, absl::StrCat("is not a checkpoint: it has no ", kManifestFile,
                           "; --force removes it all the same"));
  }
  ASSIGN_OR_RETURN(const std::vector<CheckpointSummary> found,
                   CheckpointsIn(place.directory));
  if (step == StepOfBest(place.directory)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " has the best evaluation; --force removes it all the "
                     "same"));
  }
  const auto newest =  // that may be whole
      std::find_if(found.begin(), found.end(), [&](const auto& summary) {
        return summary.problem.ok() ||
               (summary.step == step && !IsLost(summary.problem));
      });
  if (newest == found.end() || newest->step != step) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      newest->problem.ok()
          ? " is the newest complete checkpoint there"
          : " cannot be read now, and no newer one is complete",
      ": a job would resume from it; --force removes it all the same"));
}

absl::StatusOr<int> Remove(const CheckpointCommandOptions& options,
                           OutputFormat format, Console& console) {
  const std::string& path = options.path;
  const Place place = PlaceOf(path);
  const std::optional<int64_t> step = StepOfCheckpointName(place.name);
  if (!step.has_value()) {
    return WrongPath(path, absl::StrCat("is not a checkpoint: those have names "
                                        "such as ",
                                        CheckpointName(120)));
  }
  if (!options.is_forced) RETURN_IF_ERROR(CheckIsSpare(path, place, *step));
  const absl::Status removed = RemoveCheckpoint(place.directory, *step);
  if (!removed.ok()) return Unreadable(removed);
  const absl::Status latest = RefreshLinks(place.directory);
  if (!latest.ok()) {
    return Unreadable(Annotate(
        latest, absl::StrCat("removed ", path, ", but not the link to it")));
  }
  console.Write(format == OutputFormat::kJson
                    ? RemovedJson(path)
                    : absl::StrCat("removed ", Printable(path), "\n"));
  return static_cast<int>(ExitCode::kDone);
}

// ---- export

absl::StatusOr<int> Export(const CheckpointCommandOptions& options,
                           OutputFormat format, Console& console) {
  if (!HasManifest(options.path)) {
    return WrongPath(options.path, absl::StrCat("is not a checkpoint: it has ",
                                                "no ", kManifestFile));
  }
  if (options.out.empty())
    return absl::InvalidArgumentError("--out: the path is empty");
  ASSIGN_OR_RETURN(const DType dtype, ParseDType(options.dtype));
  ASSIGN_OR_RETURN(const ExportedModel exported,
                   ExportModel(options.path, options.out, dtype));
  if (format == OutputFormat::kJson) {
    console.Write(ExportedJson(options.out, exported));
  } else {
    for (const std::string& line : ExportedLines(options.out, exported))
      console.Write(absl::StrCat(line, "\n"));
  }
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

void AddCheckpointCommand(FlagSet& flags, CheckpointCommandOptions& options) {
  FlagSet& group = flags.AddCommand(
      "checkpoint", "List, verify, remove and export checkpoints, here.");
  FlagSet& list = group.AddCommand(
      "ls",
      "The checkpoints in a directory, newest first, and what writers left "
      "there. Files are judged by their sizes; verify reads them.");
  list.AddArgument("PATH",
                   "A job's train.checkpoint.directory, or a checkpoint in it.",
                   /*is_required=*/true, &options.path);
  FlagSet& verify = group.AddCommand(
      "verify",
      "Reads every byte of a checkpoint, and names each file that is not as "
      "it was written. Ends with 4 if one is damaged, with 5 if one cannot be "
      "read.");
  verify.AddArgument("PATH", "A checkpoint, or a directory: all in it.",
                     /*is_required=*/true, &options.path);
  FlagSet& remove = group.AddCommand(
      "rm",
      "Removes a checkpoint. Cut short, it leaves none that looks complete.");
  remove.AddArgument("CHECKPOINT",
                     "Its directory: DIR/step-000000120, or DIR/latest.",
                     /*is_required=*/true, &options.path);
  remove.Add({.name = "force",
              .help = "Remove it even if it is the newest complete one, from "
                      "which a job would resume, or has no checkpoint.json."},
             &options.is_forced);
  FlagSet& exported = group.AddCommand(
      "export",
      "Writes a checkpoint's model as Hugging Face's from_pretrained reads it, "
      "without the optimizer's state, after verifying it.");
  exported.AddArgument("CHECKPOINT",
                       "Its directory: DIR/step-000000120, or DIR/latest.",
                       /*is_required=*/true, &options.path);
  exported.Add({.name = "out",
                .unit = "DIR",
                .help = "The directory to make; it must not be there.",
                .is_required = true},
               &options.out);
  exported.Add({.name = "dtype",
                .help = "The type of its parameters. float16 is refused if it "
                        "cannot hold one of them.",
                .choices = {"float32", "bfloat16", "float16"}},
               &options.dtype);
}

absl::StatusOr<int> RunCheckpoint(const std::string& command,
                                  const CheckpointCommandOptions& given,
                                  OutputFormat format, Console& console) {
  if (given.path.empty())
    return absl::InvalidArgumentError("the path is empty");
  RETURN_IF_ERROR(CheckIsDirectory(given.path));
  CheckpointCommandOptions options = given;
  options.path = FollowLink(given.path);
  if (command == "checkpoint ls") return List(options.path, format, console);
  if (command == "checkpoint verify")
    return Verify(options.path, format, console);
  if (command == "checkpoint export") return Export(options, format, console);
  return Remove(options, format, console);
}

}  // namespace ringmaster::ctl
