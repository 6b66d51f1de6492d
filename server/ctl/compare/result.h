// The measurements of a comparison: plain values, from which reports are made.
//
// Seconds and bytes are of one step of training unless a name says otherwise.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_RESULT_H_
#define RINGMASTER_SERVER_CTL_COMPARE_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/ctl/compare/mode.h"

namespace ringmaster::ctl {

inline constexpr int kMaxComparedWorkers = 64;

// One rank, over the steps that were measured.
struct RankResult {
  int rank = 0;
  bool is_server = false;
  int64_t steps = 0;  // measured
  double step_seconds = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double update_seconds = 0;  // of the parameters
  double data_seconds = 0;    // waiting for the batch
  // Waiting for gradients and records with nothing left to compute.
  double exposed_seconds = 0;
  double sent_bytes = 0;
  double received_bytes = 0;
  double cpu_seconds = 0;
  double peak_resident_bytes = 0;  // in this run

  [[nodiscard]] double compute_seconds() const {
    return forward_seconds + backward_seconds + update_seconds;
  }
};

struct LossPoint {
  double seconds = 0;  // since the first step was seen
  double samples = 0;  // trained on so far
  double loss = 0;
};

// One run of a combination.
struct RunResult {
  Mode mode;
  int workers = 0;
  std::string variant;  // what else was changed; "" for nothing
  int turn = 1;         // of the repeats: all combinations run in each
  bool is_emulated = false;
  bool is_by_nccl =
      false;            // NCCL reduced the gradients: their bytes are not known
  std::string failure;  // why there are no figures; "" if there are
  double wall_seconds = 0;  // of the run, with starting and ending

  int64_t steps = 0;  // of the job
  int64_t global_batch = 0;
  double gradient_bytes = 0;  // as computed: K, in float32
  double wire_share = 1;      // of these bytes travel: a half in 16 bits
  int64_t bucket_bytes = 0;
  int ranks_per_host = 0;
  int64_t samples_at_once = 0;  // computed by a worker, the most
  int64_t micro_batches = 1;    // of a step; transfers run beside the last one
  // When each bucket's gradients are final, as shares of the backward pass;
  // empty where that is not known.
  std::vector<double> ready_shares;

  // Means over the workers. The four add up to the step.
  double step_seconds = 0;
  double compute_seconds = 0;
  double transfer_seconds = 0;  // what the worker that waited least waited
  double waiting_seconds = 0;   // what the others waited beyond that
  double other_seconds = 0;
  double backward_seconds = 0;  // part of compute_seconds
  double samples_per_second = 0;
  double all_reduce_seconds = 0;  // running times, added up; 0 without
  double final_loss = 0;
  std::vector<std::string> algorithms;  // what all-reduces ran as

  std::vector<RankResult> ranks;
  std::vector<LossPoint> losses;
  // By the number of steps that a worker was ahead of the slowest, how many of
  // the servers' answers it got; empty if workers wait for each other at every
  // step. The last of 16 counts all that were further ahead.
  std::vector<int64_t> staleness;

  [[nodiscard]] bool is_ok() const { return failure.empty(); }
  // The gradient as it travels.
  [[nodiscard]] double wire_bytes() const {
    return gradient_bytes * wire_share;
  }
  // "ring, 16-bit wire": for labels.
  [[nodiscard]] std::string label() const {
    return variant.empty() ? mode.name : mode.name + ", " + variant;
  }
};

// A rank's memory, as two runs with different batches tell.
struct RankMemory {
  bool is_server = false;
  double peak_bytes = 0;        // with the fewer samples
  double bytes_per_sample = 0;  // computed at once
  double fixed_bytes = 0;       // without any
};

// The memory of one mode.
struct MemoryResult {
  Mode mode;
  int workers = 0;
  int64_t few_samples = 0;  // on each worker, in the first run
  int64_t more_samples = 0;
  std::string failure;  // "" if there are figures
  std::vector<RankMemory> ranks;

  [[nodiscard]] bool is_ok() const { return failure.empty(); }
};

// The conditions under which the figures hold.
struct Conditions {
  std::string time;     // when it began, with its zone
  std::string machine;  // "host, 2 cores, MODEL OF PROCESSOR"
  std::string version;
  std::string command;      // as it was called
  std::string job;          // its file's name
  std::string model;        // its kind
  std::string place;        // "processes of this machine", "the cluster at ..."
  std::string device;       // that workers compute on, in words
  bool is_on_gpus = false;  // that is GPUs
  bool is_on_cluster = false;  // not this machine: links are real ones
  std::string link;            // in words
  std::string batch;           // how many samples a step has, in a sentence
  int cores = 0;
  double link_bytes_per_second = 0;  // 0: not limited
  double device_memory_bytes = 0;    // batches are to fit there; 0: not asked
  bool is_cut_short = false;         // interrupted before all had run
  int repeats = 1;                   // planned, of each combination
  int planned_runs = 0;
  int planned_memories = 0;  // modes whose memory is to be measured
};

struct Comparison {
  Conditions conditions;
  std::vector<RunResult> runs;
  std::vector<MemoryResult> memories;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_RESULT_H_
