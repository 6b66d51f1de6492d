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
