// Checkpoints as text and as JSON: what `ringctl checkpoint` prints.
//
// Pure. Lines have no newlines.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_CHECKPOINT_VIEW_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_CHECKPOINT_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/ctl/render/text.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/checkpoint/export_model.h"

namespace ringmaster::ctl {

// What a directory holds.
struct CheckpointListing {
  std::string directory;
  std::vector<CheckpointSummary> checkpoints;  // newest first
  std::optional<int64_t> best_step;            // of the one that DIR/best names
  std::vector<UnfinishedCheckpoint> unfinished;
};

// A checkpoint whose every byte was read.
struct VerifiedCheckpoint {
  std::string path;
  std::optional<int64_t> step;       // none: its manifest cannot be read
  int64_t size_bytes = 0;            // that its files should have
  std::vector<absl::Status> faults;  // one for each file; none: it is whole
};

// "complete", "damaged" (of no use any more) or "unreadable" (may be whole).
[[nodiscard]] std::string StateOf(const absl::Status& problem);

// A row for each checkpoint, then a line for each problem, and for each that is
// unfinished.
[[nodiscard]] std::vector<std::string> ListingLines(
    const CheckpointListing& listing, const Style& style);
// A line for each fault, or one that says that all is well.
[[nodiscard]] std::vector<std::string> VerifiedLines(
    const std::string& path, const std::vector<VerifiedCheckpoint>& verified);

// A line for what was written, and one for each file that was left out.
[[nodiscard]] std::vector<std::string> ExportedLines(
    const std::string& path, const ExportedModel& exported);

// The fields that docs/json.md names.
[[nodiscard]] std::string ListingJson(const CheckpointListing& listing);
[[nodiscard]] std::string VerifiedJson(
    const std::vector<VerifiedCheckpoint>& verified);
[[nodiscard]] std::string RemovedJson(const std::string& path);
[[nodiscard]] std::string ExportedJson(const std::string& path,
                                       const ExportedModel& exported);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_CHECKPOINT_VIEW_H_
