// CheckpointManifest is the content of checkpoint.json: what the checkpoint is
// of, and the digests of its files.
//
// Thread-safety: a value, and pure functions.
#ifndef RINGMASTER_WORKER_CHECKPOINT_MANIFEST_H_
#define RINGMASTER_WORKER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/optimizer/loss_scale.h"
#include "worker/checkpoint/evaluation_history.h"
#include "worker/checkpoint/file_digest.h"

namespace ringmaster {

// Raised when an older program would read a newer checkpoint wrongly.
inline constexpr int64_t kCheckpointFormatVersion = 1;

struct CheckpointFile {
  std::string name;  // without a directory
  FileDigest digest;
};

// A file that belongs to the model and lies elsewhere: one of its tokenizer.
struct CheckpointCompanion {
  std::string name;  // as Hugging Face's programs call it
  std::string path;  // where the job had it

  friend bool operator==(const CheckpointCompanion&,
                         const CheckpointCompanion&) = default;
};

struct CheckpointManifest {
  // The last update that the parameters hold. The place where the data
  // continues is a function of it.
  int64_t step = 0;
  std::string plan_text;  // Plan::ToString
  uint64_t plan_hash = 0;
  std::string job_id;  // of the job that wrote it; "" in older ones
  std::string model_kind;
  std::string model_settings;  // canonical text
  std::string program_text;    // canonical text of all that the ranks agree on
  uint64_t data_fingerprint = 0;
  uint64_t parameters_hash = 0;         // as HashParameters of the arena
  std::optional<LossScale> loss_scale;  // after `step`; none: it is always 1
  // Up to `step`, or the step before; none: the job does not follow them.
  std::optional<EvaluationHistory> evaluations;
  absl::Time creation_time;    // to the second
  std::string writer_version;  // kVersion of the program that wrote it
  std::vector<CheckpointFile> files;
  std::vector<CheckpointCompanion> companions;

  // The size of all files without the manifest.
  int64_t total_bytes() const;
  // Returns the file of that name, or null.
  const CheckpointFile* Find(std::string_view name) const;
};

// The text of checkpoint.json: JSON that people can read, with a hash of itself
// at the end. Bytes that are not UTF-8 become U+FFFD.
std::string EncodeManifest(const CheckpointManifest& manifest);

// The inverse of EncodeManifest. Messages lack the file's name.
//   DATA_LOSS            not what EncodeManifest wrote
//   FAILED_PRECONDITION  of a newer format version
[[nodiscard]] absl::StatusOr<CheckpointManifest> DecodeManifest(
    std::string_view text);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_MANIFEST_H_
