// A checkpoint is a directory that holds a training job at the end of a step:
//
//   DIR/step-000000120/
//     model.safetensors      the parameters, by name
//     optimizer.safetensors  "first_moment/NAME" and "second_moment/NAME"
//     config.json            a Hugging Face model config, if there is one
//     checkpoint.json        the manifest (worker/checkpoint/manifest.h)
//   DIR/latest               a link to the newest complete one
//   DIR/best                 a link to the one with the best evaluation
//
// Nothing in it depends on the number of ranks, and programs that read
// safetensors read the model as it is.
//
// Guarantees: a checkpoint exists completely, durably and unchanged, or not at
// all: files are synced before the directory gets its name, and every byte is
// covered by a hash. A failed write leaves older checkpoints as they were.
// Thread-safety: functions may run at once, also on several hosts.
// Example:
//   ASSIGN_OR_RETURN(WrittenCheckpoint written,
//                    WriteCheckpoint(directory, contents, {.keep = 3}));
//   ASSIGN_OR_RETURN(CheckpointManifest manifest,
//                    ReadCheckpoint(written.path, plan,
//                                   {.parameters = arena.Elems<float>()}));
#ifndef RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_H_
#define RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/optimizer/loss_scale.h"
#include "common/plan/plan.h"
#include "common/transport/cancel_token.h"
#include "worker/checkpoint/disk_progress.h"
#include "worker/checkpoint/manifest.h"

namespace ringmaster {

inline constexpr char kManifestFile[] = "checkpoint.json";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kConfigFile[] = "config.json";

// The contents to write. The spans are whole arenas of the plan's layout,
// float32; the moments may be empty (SGD has only the first, or none).
struct CheckpointContents {
  int64_t step = 0;  // >= 0
  const Plan* plan = nullptr;
  absl::Span<const float> parameters;
  absl::Span<const float> first_moment;
  absl::Span<const float> second_moment;
  // The job's id, whose directory it must be (directory_owner.h); "": anybody's.
  std::string job_id;
  // For the manifest, see there.
  std::string model_kind;
  std::string model_settings;
  std::string program_text;
  uint64_t data_fingerprint = 0;
  std::optional<LossScale> loss_scale;
  std::optional<EvaluationHistory> evaluations;
  // DIR/best is to name it.
  bool is_best = false;
  absl::Time creation_time;
  std::string config_json;  // "" for none
  std::vector<CheckpointCompanion> companions;
};

struct CheckpointWriteOptions {
  // The number of complete checkpoints that stay, including the new one; older
  // ones are removed once it is complete, newer ones never, nor those that a job of
  // another name wrote, which do not count, nor the one that DIR/best names. 0: all
  // stay.
  int keep = 0;
  // A checkpoint that is never removed, named by its path or that of one of its
  // files: the one that the job started from.
  std::string protect = "";
  // Ends the write early, with ABORTED; may be null.
  const CancelToken* cancel = nullptr;
  // Counts the bytes written; may be null.
  DiskProgress* progress = nullptr;
};

struct WrittenCheckpoint {
  std::string path;
  int64_t bytes = 0;
  // The reason why an older checkpoint could not be removed. The new one is
  // fine.
  absl::Status removal;
  // The reason why DIR/latest does not point to the newest complete checkpoint, or
  // DIR/best not to this one, with the link's name.
  absl::Status link;
};

// Writes DIR/step-N, in place of one of the same step, then points DIR/latest to the
// newest complete one and removes old ones.
// Errors are those of ClaimDirectory and of FileError, with the path; then nothing is left behind
// (except if SyncDirectory fails: the checkpoint exists but may not survive a
// crash of the machine).
[[nodiscard]] absl::StatusOr<WrittenCheckpoint> WriteCheckpoint(
    const std::string& directory, const CheckpointContents& contents,
    const CheckpointWriteOptions& options = {});

struct CheckpointSummary {
  std::string path;
  int64_t step = 0;
  // OK if it is complete, judging by the manifest and the sizes of files.
  absl::Status problem;
  CheckpointManifest manifest;  // without files if it could not be read
};

// Returns true if a checkpoint with this problem is of no use to anybody: it is damaged
// or gone. Another problem, such as a missing permission, may pass.
[[nodiscard]] bool IsLost(const absl::Status& problem);

// Returns the checkpoints in `directory`, newest step first; none if it is
// absent. It is quick: it reads manifests and looks at sizes. Errors are
// FileError's.
[[nodiscard]] absl::StatusOr<std::vector<CheckpointSummary>> ListCheckpoints(
    const std::string& directory);

// Points DIR/latest to the newest complete checkpoint in `directory`, or removes the link
// if there is none, and DIR/best if what it names is gone. Does nothing if there is no
// such link. Errors are FileError's.
[[nodiscard]] absl::Status RefreshLinks(const std::string& directory);

// Reads and checks the manifest of the checkpoint at `path`.
//   NOT_FOUND            there is no checkpoint
//   DATA_LOSS            the manifest is damaged
//   FAILED_PRECONDITION  of a newer format version
[[nodiscard]] absl::StatusOr<CheckpointManifest> ReadCheckpointManifest(
    const std::string& path);

// The same, and reads every file:
//   DATA_LOSS  names the file and the bytes that are missing or damaged
[[nodiscard]] absl::StatusOr<CheckpointManifest> VerifyCheckpoint(
    const std::string& path);

// Reads every file that `manifest` names, which is that of the checkpoint at `path`,
// and returns what is wrong with each that is not as it was written: an error of
// VerifyCheckpoint.
[[nodiscard]] std::vector<absl::Status> FindFaults(
    const std::string& path, const CheckpointManifest& manifest);

// The destinations of a checkpoint's contents: whole arenas, or empty spans for
// parts that are not wanted.
struct CheckpointArenas {
  absl::Span<float> parameters = {};
  absl::Span<float> first_moment = {};
  absl::Span<float> second_moment = {};
};

// Verifies the checkpoint at `path` and fills `arenas`, padding with zeros.
// Tensors are found by name, so their order, buckets and settings may differ
// from those at the time of writing; the caller compares anything else that
// matters to it in the manifest. After an error the arenas may be partly
// filled.
//   FAILED_PRECONDITION  of another model, and names the first tensor that
//                        differs, with both shapes; or without the moments that
//                        are wanted
//   ABORTED              `cancel`, which may be null, was cancelled
// and the errors of VerifyCheckpoint. `progress` counts the bytes read, and may
// be null.
[[nodiscard]] absl::StatusOr<CheckpointManifest> ReadCheckpoint(
    const std::string& path, const Plan& plan, const CheckpointArenas& arenas,
    const CancelToken* cancel = nullptr, DiskProgress* progress = nullptr);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_CHECKPOINT_H_
