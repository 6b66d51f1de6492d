#include "server/ctl/commands/sample.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status/status_macros.h"
#include "server/ctl/local/binaries.h"

namespace ringmaster::ctl {

// Names and bounds as in `worker sample`, which it runs.
void AddSampleCommand(FlagSet& flags, SampleOptions& options) {
  FlagSet& sample = flags.AddCommand(
      "sample", "Let a checkpoint's language model go on with a text, here.");
  sample.Add({.name = "checkpoint",
              .unit = "DIR",
              .help = "A checkpoint, a directory of checkpoints (the latest is "
                      "taken), or a model in Hugging Face's layout.",
              .is_required = true},
             &options.checkpoint);
  sample.Add({.name = "prompt",
              .unit = "TEXT",
              .help = "The beginning of the text.",
              .is_required = true},
             &options.prompt);
  sample.Add({.name = "bytes",
              .help = "Bytes to write after the prompt.",
              .min = 1,
              .max = 1e6},
             &options.bytes);
  sample.Add({.name = "temperature",
              .help = "Logits are divided by this before a token is drawn; 0 "
                      "takes the most probable one.",
              .min = 0,
              .max = 100},
             &options.temperature);
  sample.Add(
      {.name = "top_k",
       .help = "Draw from this many of the most probable tokens; 0: from all.",
       .min = 0},
      &options.top_k);
  sample.Add({.name = "seed", .help = "Another seed, another text."},
             &options.seed);
  sample.Add({.name = "vocabulary",
              .unit = "FILE",
              .help = "GPT-2's vocab.json, for a model of its tokens; tokens "
                      "are bytes unless given."},
             &options.vocabulary);
  sample.Add({.name = "merges", .unit = "FILE", .help = "GPT-2's merges.txt."},
             &options.merges);
  sample.Add({.name = "threads",
              .unit = "N",
              .help = "Threads to compute with.",
              .min = 1,
              .max = 256},
             &options.threads);
  sample.Add({.name = "bin_dir",
              .unit = "DIR",
              .help = "Where the program worker is; beside ringctl unless "
                      "given.",
              .is_place = true},
             &options.bin_dir);
}

std::vector<std::string> WorkerSampleArguments(const SampleOptions& options) {
  std::vector<std::string> arguments = {
      "sample",
      absl::StrCat("--checkpoint=", options.checkpoint),
      absl::StrCat("--prompt=", options.prompt),
      absl::StrCat("--bytes=", options.bytes),
      absl::StrFormat("--temperature=%.17g", options.temperature),
      absl::StrCat("--top_k=", options.top_k),
      absl::StrCat("--seed=", options.seed),
      absl::StrCat("--threads=", options.threads)};
  if (!options.vocabulary.empty())
    arguments.push_back(absl::StrCat("--vocabulary=", options.vocabulary));
  if (!options.merges.empty())
    arguments.push_back(absl::StrCat("--merges=", options.merges));
  if (options.is_json) arguments.push_back("--output=json");
  return arguments;
}

absl::Status ExecSample(const SampleOptions& options) {
  ASSIGN_OR_RETURN(std::string program,
                   FindBinary("worker", OwnPlaces(options.bin_dir)));
  std::vector<std::string> arguments = WorkerSampleArguments(options);
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::execv(program.c_str(), argv.data());
  return absl::InternalError(absl::StrCat("cannot start the program ", program,
                                          ": ", std::strerror(errno)));
}

}  // namespace ringmaster::ctl
