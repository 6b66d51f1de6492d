// Defaults and checks of a job's spec. Programs that write specs, the
// coordinator (once, at its edge) and each worker all apply them, by the rules
// of the fields in job.proto. Pure.
#ifndef RINGMASTER_COMMON_JOB_JOB_SPEC_H_
#define RINGMASTER_COMMON_JOB_JOB_SPEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/protocol/labels.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

// Most bytes of a spec with its defaults, as a message: each member is sent it with
// every generation.
inline constexpr size_t kMaxSpecBytes = 64 << 10;

// Returns `spec` with its defaults. The coordinator needs no further checks of
// a spec that passes; only the workers can tell whether a path exists and is
// readable.
//   INVALID_ARGUMENT/INVALID_JOB_SPEC  names each bad field by its path, its
//   bounds and its value, as in
//                                      "train.steps must be at least 1, got 0";
//                                      at most ten of them
[[nodiscard]] absl::StatusOr<v1::JobSpec> ValidateAndDefault(v1::JobSpec spec);

// Returns a program with its defaults, each field checked by itself: a worker
// does not rely on its coordinator. Errors as above.
[[nodiscard]] absl::StatusOr<v1::TrainProgram> DefaultProgram(
    v1::TrainProgram program);
[[nodiscard]] absl::StatusOr<v1::BenchProgram> DefaultProgram(
    v1::BenchProgram program);
[[nodiscard]] absl::StatusOr<v1::ExternalProgram> DefaultProgram(
    v1::ExternalProgram program);

// Returns the spec's bytes, the same for equal specs: by default protobuf may
// serialize a map in any order.
[[nodiscard]] std::string SerializeSpec(const v1::JobSpec& spec);

// Returns true if the job can go on without those that it has now: from the newest of its
// checkpoints, or with commands that may begin anew.
[[nodiscard]] bool CanGoOnLater(const v1::JobSpec& spec);

// Returns the most workers that the job could be changed to take: each needs a
// sample of a step (a group of them, if the model normalizes by groups), and
// where workers hold the parameters a shard; 0: it keeps those that it was
// submitted with, as a benchmark.
[[nodiscard]] int ScaleLimit(const v1::JobSpec& spec);

// OK if a job, or a queue, can have that name: 1 to 40 lower-case letters, digits and
// dashes, of which the first is a letter and the last no dash. INVALID_ARGUMENT says so
// of `field`.
[[nodiscard]] absl::Status CheckName(const char* field,
                                     const std::string& name);

// Returns the labels that its workers must have.
[[nodiscard]] Labels RequiredLabels(const v1::JobSpec& spec);

// Returns true if a checkpoint that cannot be written ends the job.
[[nodiscard]] bool FailsOnWriteError(const v1::JobSpec& spec);

// Returns true if it may succeed before its last step.
[[nodiscard]] bool CanEndEarly(const v1::JobSpec& spec);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_JOB_JOB_SPEC_H_
