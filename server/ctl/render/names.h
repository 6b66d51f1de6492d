// The protocol's enumerations in the words that people read.
#ifndef RINGMASTER_SERVER_CTL_RENDER_NAMES_H_
#define RINGMASTER_SERVER_CTL_RENDER_NAMES_H_

#include <string>

#include "ringmaster/v1/event.pb.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/verdict.pb.h"
#include "ringmaster/v1/worker.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// "RUNNING", "STEP", ...: the value's name without the enumeration's; its
// number where this program does not know it.
[[nodiscard]] std::string NameOf(v1::JobState state);
// The name of the job's state, or "SUSPENDED".
[[nodiscard]] std::string StateName(const v1::Job& job);
[[nodiscard]] std::string NameOf(v1::WorkerState state);
[[nodiscard]] std::string NameOf(v1::Phase phase);
[[nodiscard]] std::string NameOf(v1::EventSeverity severity);
[[nodiscard]] std::string NameOf(v1::EvidenceKind kind);
// As in job files: "direct", "halving_doubling".
[[nodiscard]] std::string NameOf(v1::CollectiveAlgorithm algorithm);

[[nodiscard]] Color ColorOf(v1::JobState state);

// True for SUCCEEDED, FAILED and CANCELLED.
[[nodiscard]] bool HasEnded(v1::JobState state);

// "w1", "s1 (server)": who is a member, for a table.
[[nodiscard]] std::string MemberName(const std::string& worker, v1::Role role);

// Returns how many of a job's members train: all but its parameter servers.
[[nodiscard]] int RankCount(const v1::Job& job);

// "2 ranks", "2 ranks, 1 server".
[[nodiscard]] std::string RankCounts(const v1::Job& job);

// "cpu:0", "cuda:3".
[[nodiscard]] std::string DeviceName(const v1::Device& device);

// Returns false of a job that started from a checkpoint and has trained no step
// since: its figures have a step, and nothing else.
[[nodiscard]] bool IsMeasured(const v1::TrainingFigures& figures);

// How long the job has run by `now`, or ran; "-" if it has not begun, or `now` is
// unknown (the infinite past).
[[nodiscard]] std::string ElapsedText(const v1::Job& job, absl::Time now);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_NAMES_H_
