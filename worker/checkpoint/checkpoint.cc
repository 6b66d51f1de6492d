#include "worker/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/version.h"
#include "common/files/file_roots.h"
#include "common/files/sync_names.h"
#include "common/status/annotate.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/checkpoint/directory_owner.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/file_error.h"
#include "worker/checkpoint/input_file.h"
#include "worker/checkpoint/safetensors.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

constexpr char kFirstMoment[] = "first_moment";
constexpr char kSecondMoment[] = "second_moment";
constexpr int64_t kMaxManifestBytes = int64_t{64} << 20;

absl::Span<const uint8_t> BytesOf(absl::Span<const float> elems) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(elems.data()),
                             elems.size() * sizeof(float));
}

// Not called HashOf: absl has one, which a Span would find.
uint64_t ArenaHash(absl::Span<const float> elems) {
  return XXH3_64bits(elems.data(), elems.size() * sizeof(float));
}

std::string PrefixOf(std::string_view moment) {
  return absl::StrCat(absl::string_view(moment.data(), moment.size()), "/");
}

void CheckSize(const Plan& plan, size_t elems) {
  RM_CHECK(static_cast<int64_t>(elems) == plan.total_elems(),
           "not an arena of the plan");
}

// ---- Writing.

void AppendTensors(const Plan& plan, absl::Span<const float> arena,
                   const std::string& prefix,
                   std::vector<TensorBytes>& tensors) {
  CheckSize(plan, arena.size());
  for (const PlannedTensor& tensor : plan.tensors()) {
    tensors.push_back({.name = prefix + tensor.spec.name,
                       .dtype = DType::kFloat32,
                       .shape = tensor.spec.shape,
                       .bytes = BytesOf(arena.subspan(tensor.range.begin,
                                                      tensor.range.count))});
  }
}

// Writes the files of one checkpoint and keeps their digests.
class FileWriter {
 public:
  FileWriter(const StagingDirectory& staging,
             const CheckpointWriteOptions& options)
      : staging_(staging), options_(options) {}

  absl::Status WriteTensors(const char* name,
                            absl::Span<const TensorBytes> tensors,
                            const SafetensorsMetadata& metadata) {
    ASSIGN_OR_RETURN(DurableFile file, Create(name));
    RETURN_IF_ERROR(WriteSafetensors(tensors, metadata, file));
    return Close(name, file);
  }

  absl::Status WriteText(const char* name, std::string_view text) {
    ASSIGN_OR_RETURN(DurableFile file, Create(name));
    RETURN_IF_ERROR(file.Append(text));
    return Close(name, file);
  }

  std::vector<CheckpointFile> TakeFiles() { return std::move(files_); }

 private:
  absl::StatusOr<DurableFile> Create(const char* name) {
    return DurableFile::Create(staging_.File(name), options_.cancel,
                               options_.progress);
  }

  absl::Status Close(const char* name, DurableFile& file) {
    ASSIGN_OR_RETURN(FileDigest digest, file.Close());
    files_.push_back({name, std::move(digest)});
    return absl::OkStatus();
  }

  const StagingDirectory& staging_;
  const CheckpointWriteOptions& options_;
  std::vector<CheckpointFile> files_;
};

absl::Status WriteParts(const CheckpointContents& contents,
                        FileWriter& writer) {
  const Plan& plan = *contents.plan;
  std::vector<TensorBytes> tensors;
  AppendTensors(plan, contents.parameters, "", tensors);
  RETURN_IF_ERROR(writer.WriteTensors(
      kModelFile, tensors,
      // transformers refuses a model without a format.
      {{"format", "pt"}, {"step", absl::StrCat(contents.step)}}));
  tensors.clear();
  if (!contents.first_moment.empty()) {
    AppendTensors(plan, contents.first_moment, PrefixOf(kFirstMoment), tensors);
  }
  if (!contents.second_moment.empty()) {
    AppendTensors(plan, contents.second_moment, PrefixOf(kSecondMoment),
                  tensors);
  }
  if (!tensors.empty()) {
    RETURN_IF_ERROR(
        writer.WriteTensors(kOptimizerFile, tensors, {{"format", "pt"}}));
  }
  if (contents.config_json.empty()) return absl::OkStatus();
  return writer.WriteText(kConfigFile, contents.config_json);
}

CheckpointManifest ManifestOf(const CheckpointContents& contents,
                              std::vector<CheckpointFile> files) {
  CheckpointManifest manifest;
  manifest.step = contents.step;
  manifest.plan_text = contents.plan->ToString();
  manifest.plan_hash = contents.plan->hash();
  manifest.job_id = contents.job_id;
  manifest.model_kind = contents.model_kind;
  manifest.model_settings = contents.model_settings;
  manifest.program_text = contents.program_text;
  manifest.data_fingerprint = contents.data_fingerprint;
  manifest.parameters_hash = ArenaHash(contents.parameters);
  manifest.loss_scale = contents.loss_scale;
  manifest.evaluations = contents.evaluations;
  manifest.creation_time = contents.creation_time;
  manifest.writer_version = kVersion;
  manifest.files = std::move(files);
  manifest.companions = contents.companions;
  return manifest;
}

// ---- Listing.

absl::Status CheckSizes(const std::string& path,
                        const CheckpointManifest& manifest) {
  for (const CheckpointFile& file : manifest.files) {
    const std::string file_path = absl::StrCat(path, "/", file.name);
    struct stat found = {};
    if (ProcessFiles().Stat(file_path, found) != 0) {
      // It may be whole, where this process may not look.
      if (errno == EXDEV) return FileError("read", file_path, errno);
      return absl::DataLossError(absl::StrCat(
          file_path,
          " of a checkpoint cannot be read: ", std::strerror(errno)));
    }
    if (found.st_size != file.digest.size_bytes) {
      return absl::DataLossError(absl::StrCat(
          file_path, " is ", found.st_size,
          " bytes long, but was written with ", file.digest.size_bytes));
    }
  }
  return absl::OkStatus();
}

// The steps of which `directory` has checkpoints, newest first; none if it is absent.
absl::StatusOr<std::vector<int64_t>> StepsIn(const std::string& directory) {
  std::vector<int64_t> steps;
  const auto names = ProcessFiles().List(directory);
  if (!names.has_value() && errno == ENOENT) return steps;
  if (!names.has_value()) return FileError("read", directory, errno);
  for (const std::string& name : *names) {
    const std::optional<int64_t> step = StepOfCheckpointName(name);
    if (step.has_value()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

CheckpointSummary Summarize(const std::string& directory, int64_t step) {
  CheckpointSummary summary;
  summary.path = absl::StrCat(directory, "/", CheckpointName(step));
  summary.step = step;
  absl::StatusOr<CheckpointManifest> manifest =
      ReadCheckpointManifest(summary.path);
  summary.problem = manifest.status();
  if (manifest.ok()) {
    summary.problem = CheckSizes(summary.path, *manifest);
    summary.manifest = *std::move(manifest);
  }
  return summary;
}

// The newest complete checkpoint; that of `complete_step` is known to be one.
std::optional<int64_t> NewestComplete(
    const std::string& directory, const std::vector<int64_t>& steps,
    std::optional<int64_t> complete_step = std::nullopt) {
  for (const int64_t step : steps) {
    if (step == complete_step || Summarize(directory, step).problem.ok())
      return step;
  }
  return std::nullopt;
}

// ---- Removing.

// Returns true if `kept`, which may be empty, is the checkpoint or one of its
// files.
bool IsInCheckpoint(const std::string& checkpoint, const std::string& kept) {
  struct stat own = {};
  struct stat other = {};
  if (kept.empty() || ProcessFiles().Stat(checkpoint, own) != 0) return false;
  const bool is_directory =
      ProcessFiles().Stat(kept, other) == 0 && S_ISDIR(other.st_mode);
  if (!is_directory && ProcessFiles().Stat(DirectoryOf(kept), other) != 0)
    return false;
  return own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

// Returns true if a job of another name than that of `job_id` wrote the checkpoint. A
// directory may have been handed over with checkpoints in it.
bool IsOfAnother(const CheckpointManifest& manifest, std::string_view job_id) {
  return !manifest.job_id.empty() && !job_id.empty() &&
         JobNameOf(manifest.job_id) != JobNameOf(job_id);
}

// Keeps the newest `options.keep` complete checkpoints up to `step`; removes
// older ones, and broken ones that are older than these. Newer ones are another
// run's, and not ours to remove or to count.
absl::Status RemoveOld(const std::string& directory,
                       const std::vector<int64_t>& steps, int64_t step,
                       std::string_view job_id,
                       const CheckpointWriteOptions& options) {
  if (options.keep <= 0) return absl::OkStatus();
  const std::optional<int64_t> best = StepOfBest(directory);
  int others = 0;  // complete ones that stay, beside the one of `step`
  absl::Status first;
  for (const int64_t older : steps) {
    if (older >= step) continue;
    const CheckpointSummary summary = Summarize(directory, older);
    if (IsOfAnother(summary.manifest, job_id)) continue;
    if (summary.problem.ok() && others < options.keep - 1) {
      ++others;
      continue;
    }
    const bool is_lost_and_old =
        IsLost(summary.problem) && others == options.keep - 1;
    if (!summary.problem.ok() && !is_lost_and_old) continue;
    if (IsInCheckpoint(summary.path, options.protect) || older == best)
      continue;
    first.Update(RemoveCheckpoint(directory, summary.step));
  }
  return first;
}

// The messages of both, if neither is OK, with the code of the first.
absl::Status Joined(const absl::Status& first, const absl::Status& second) {
  if (first.ok() || second.ok()) return first.ok() ? second : first;
  absl::Status joined(first.code(),
                      absl::StrCat(first.message(), "; ", second.message()));
  first.ForEachPayload([&joined](absl::string_view url, const auto& payload) {
    joined.SetPayload(url, payload);
  });
  return joined;
}

// ---- Reading.

absl::Status VerifyFile(const std::string& path, const CheckpointFile& file,
                        const CancelToken* cancel, DiskProgress* progress) {
  const std::string file_path = absl::StrCat(path, "/", file.name);
  const absl::StatusOr<InputFile> input = InputFile::Open(file_path, progress);
  if (absl::IsNotFound(input.status())) {
    return absl::DataLossError(
        absl::StrCat(file_path, " of a checkpoint is missing"));
  }
  RETURN_IF_ERROR(input.status());
  return input->CheckAgainst(file.digest, cancel);
}

// Checks that `file` holds the tensors of `plan`, their names after `prefix`.
absl::Status CheckTensors(const SafetensorsFile& file, const Plan& plan,
                          const std::string& prefix) {
  for (const PlannedTensor& tensor : plan.tensors()) {
    const std::string name = prefix + tensor.spec.name;
    const SafetensorsEntry* const found = file.Find(name);
    if (found != nullptr && found->HasShape(tensor.spec.shape)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        file.path(), ": ", name, " is ",
        found == nullptr ? "not" : found->ShapeText(), " in the checkpoint, ",
        tensor.spec.shape.ToString(), " in the job's model"));
  }
  return absl::OkStatus();
}

absl::Status CheckNoOthers(const SafetensorsFile& file, const Plan& plan) {
  if (file.tensors().size() == plan.tensors().size()) return absl::OkStatus();
  for (const SafetensorsEntry& entry : file.tensors()) {
    const auto tensors = plan.tensors();
    if (std::none_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
          return tensor.spec.name == entry.name;
        })) {
      return absl::FailedPreconditionError(
          absl::StrCat(file.path(), ": ", entry.name, " is ", entry.ShapeText(),
                       " in the checkpoint, not in the job's model"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTensors(const SafetensorsFile& file, const Plan& plan,
                         const std::string& prefix, absl::Span<float> arena,
                         const CancelToken* cancel) {
  CheckSize(plan, arena.size());
  int64_t end = 0;
  for (const PlannedTensor& tensor : plan.tensors()) {
    if (cancel != nullptr) RETURN_IF_ERROR(cancel->status());
    const auto elems = arena.subspan(tensor.range.begin, tensor.range.count);
    std::fill(arena.begin() + end, arena.begin() + tensor.range.begin, 0.0f);
    RETURN_IF_ERROR(
        file.ReadFloats(*file.Find(prefix + tensor.spec.name), 0, elems));
    end = tensor.range.end();
  }
  std::fill(arena.begin() + end, arena.end(), 0.0f);
  return absl::OkStatus();
}

absl::Status ReadModel(const std::string& path, const Plan& plan,
                       const CheckpointManifest& manifest,
                       absl::Span<float> parameters, const CancelToken* cancel,
                       DiskProgress* progress) {
  RETURN_IF_ERROR(
      VerifyFile(path, *manifest.Find(kModelFile), cancel, progress));
  ASSIGN_OR_RETURN(
      const SafetensorsFile file,
      SafetensorsFile::Open(absl::StrCat(path, "/", kModelFile), progress));
  RETURN_IF_ERROR(CheckTensors(file, plan, ""));
  RETURN_IF_ERROR(CheckNoOthers(file, plan));
  if (parameters.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(ReadTensors(file, plan, "", parameters, cancel));
  // The hash is that of the arena, and says nothing in another order.
  if (plan.hash() == manifest.plan_hash &&
      ArenaHash(parameters) != manifest.parameters_hash) {
    return absl::DataLossError(
        absl::StrCat(path,
                     ": the parameters are not those that were hashed "
                     "when the checkpoint was written"));
  }
  return absl::OkStatus();
}

absl::Status ReadOptimizer(const std::string& path, const Plan& plan,
                           const CheckpointManifest& manifest,
                           const CheckpointArenas& arenas,
                           const CancelToken* cancel, DiskProgress* progress) {
  if (arenas.first_moment.empty() && arenas.second_moment.empty())
    return absl::OkStatus();
  const CheckpointFile* const listed = manifest.Find(kOptimizerFile);
  if (listed == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " holds no state of an optimizer, which the job's "
                     "optimizer needs"));
  }
  RETURN_IF_ERROR(VerifyFile(path, *listed, cancel, progress));
  ASSIGN_OR_RETURN(
      const SafetensorsFile file,
      SafetensorsFile::Open(absl::StrCat(path, "/", kOptimizerFile), progress));
  const auto read = [&](const char* moment, absl::Span<float> arena) {
    if (arena.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(CheckTensors(file, plan, PrefixOf(moment)));
    return ReadTensors(file, plan, PrefixOf(moment), arena, cancel);
  };
  RETURN_IF_ERROR(read(kFirstMoment, arenas.first_moment));
  return read(kSecondMoment, arenas.second_moment);
}

}  // namespace

absl::StatusOr<WrittenCheckpoint> WriteCheckpoint(
    const std::string& directory, const CheckpointContents& contents,
    const CheckpointWriteOptions& options) {
  RM_CHECK(contents.plan != nullptr && contents.step >= 0,
           "a checkpoint of nothing");
  if (!contents.job_id.empty())
    RETURN_IF_ERROR(ClaimDirectory(directory, contents.job_id));
  WrittenCheckpoint written;
  {
    ASSIGN_OR_RETURN(StagingDirectory staging,
                     StagingDirectory::Create(directory, contents.step));
    FileWriter writer(staging, options);
    RETURN_IF_ERROR(WriteParts(contents, writer));
    const CheckpointManifest manifest =
        ManifestOf(contents, writer.TakeFiles());
    const std::string text = EncodeManifest(manifest);
    RETURN_IF_ERROR(writer.WriteText(kManifestFile, text));
    written.bytes = manifest.total_bytes() + static_cast<int64_t>(text.size());
    ASSIGN_OR_RETURN(written.path, staging.Publish());
  }
  const absl::StatusOr<std::vector<int64_t>> steps = StepsIn(directory);
  if (!steps.ok()) {
    written.removal = steps.status();
    return written;
  }
  // The link first, so that it never points to one that is removed.
  written.link = Annotate(
      LinkLatest(directory, NewestComplete(directory, *steps, contents.step)
                                .value_or(contents.step)),
      absl::StrCat(kLatestLink, " does not point to it"));
  if (contents.is_best) {
    written.link =
        Joined(written.link,
               Annotate(LinkBest(directory, contents.step),
                        absl::StrCat(kBestLink, " does not point to it")));
  }
  written.removal =
      RemoveOld(directory, *steps, contents.step, contents.job_id, options);
  return written;
}

bool IsLost(const absl::Status& problem) {
  return absl::IsDataLoss(problem) || absl::IsNotFound(problem);
}

absl::StatusOr<std::vector<CheckpointSummary>> ListCheckpoints(
    const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsIn(directory));
  std::vector<CheckpointSummary> found;
  for (const int64_t step : steps) found.push_back(Summarize(directory, step));
  return found;
}

absl::Status RefreshLinks(const std::string& directory) {
  if (const std::optional<int64_t> best = StepOfBest(directory)) {
    const std::string path = absl::StrCat(directory, "/", kBestLink);
    struct stat target = {};
    if (ProcessFiles().Stat(path, target) != 0 && errno == ENOENT &&
        ProcessFiles().Unlink(path) != 0) {
      return FileError("remove", path, errno);
    }
  }
  const std::string link = absl::StrCat(directory, "/", kLatestLink);
  struct stat found = {};
  if (ProcessFiles().StatLink(link, found) != 0 || !S_ISLNK(found.st_mode))
    return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsIn(directory));
  const std::optional<int64_t> newest = NewestComplete(directory, steps);
  if (newest.has_value()) return LinkLatest(directory, *newest);
  return ProcessFiles().Unlink(link) == 0 ? SyncDirectory(directory)
                                          : FileError("remove", link, errno);
}

absl::StatusOr<CheckpointManifest> ReadCheckpointManifest(
    const std::string& path) {
  const std::string file_path = absl::StrCat(path, "/", kManifestFile);
  const absl::StatusOr<InputFile> file = InputFile::Open(file_path);
  if (absl::IsNotFound(file.status())) {
    return absl::NotFoundError(
        absl::StrCat(path, " is not a checkpoint: it has no ", kManifestFile));
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const std::string text, file->ReadText(kMaxManifestBytes));
  absl::StatusOr<CheckpointManifest> manifest = DecodeManifest(text);
  if (!manifest.ok()) return Annotate(manifest.status(), file_path);
  if (manifest->Find(kModelFile) == nullptr) {
    return absl::DataLossError(
        absl::StrCat(file_path, " names no ", kModelFile));
  }
  return manifest;
}

absl::StatusOr<CheckpointManifest> VerifyCheckpoint(const std::string& path) {
  ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadCheckpointManifest(path));
  for (const CheckpointFile& file : manifest.files)
    RETURN_IF_ERROR(
        VerifyFile(path, file, /*cancel=*/nullptr, /*progress=*/nullptr));
  return manifest;
}

std::vector<absl::Status> FindFaults(const std::string& path,
                                     const CheckpointManifest& manifest) {
  std::vector<absl::Status> faults;
  for (const CheckpointFile& file : manifest.files) {
    absl::Status status =
        VerifyFile(path, file, /*cancel=*/nullptr, /*progress=*/nullptr);
    if (!status.ok()) faults.push_back(std::move(status));
  }
  return faults;
}

absl::StatusOr<CheckpointManifest> ReadCheckpoint(
    const std::string& path, const Plan& plan, const CheckpointArenas& arenas,
    const CancelToken* cancel, DiskProgress* progress) {
  ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadCheckpointManifest(path));
  RETURN_IF_ERROR(
      ReadModel(path, plan, manifest, arenas.parameters, cancel, progress));
  RETURN_IF_ERROR(
      ReadOptimizer(path, plan, manifest, arenas, cancel, progress));
  return manifest;
}

}  // namespace ringmaster
