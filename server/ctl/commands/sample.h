// `ringctl sample`: a checkpoint's language model continues a text.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_SAMPLE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_SAMPLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/flags.h"

namespace ringmaster::ctl {

struct SampleOptions {
  std::string checkpoint;
  std::string prompt;
  int bytes = 200;
  double temperature = 0.8;
  int top_k = 0;
  int64_t seed = 1;
  std::string vocabulary;
  std::string merges;
  int threads = 1;
  std::string bin_dir;  // "": beside this program
  bool is_json = false;
};

void AddSampleCommand(FlagSet& flags, SampleOptions& options);

// The arguments of `worker` for it, without the program's name.
[[nodiscard]] std::vector<std::string> WorkerSampleArguments(
    const SampleOptions& options);

// Replaces this process by the program `worker`, which has the models, with
// those arguments, so that its output and exit code become ours. Unblocks
// signals first. Returns only on failure: NOT_FOUND lists the places searched.
[[nodiscard]] absl::Status ExecSample(const SampleOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_SAMPLE_H_
