// The `worker` binary.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/logging/log_file.h"
#include "common/logging/logging.h"
#include "common/program/program_flags.h"
#include "common/status/status_macros.h"
#include "worker/bench/bench_runner.h"
#include "worker/external/external_runner.h"
#include "worker/open_accelerator.h"
#include "worker/parameter_server/shard_host.h"
#include "worker/process/member_process.h"
#include "worker/program/program_runner.h"
#include "worker/train/output/job_check.h"
#include "worker/train/output/sample_command.h"
#include "worker/train/step/job_trainer.h"
#include "worker/worker_flags.h"

namespace ringmaster {
namespace {

// Beside the log's file, and rotated like it: "worker.log" has
// "worker.log.commands".
LogFileOptions OutputFileOf(const WorkerFlags& flags) {
  LogFileOptions file = LogFileOf(flags.program);
  if (!file.path.empty()) file.path += ".commands";
  return file;
}

// The directory of the Python modules that come with this program: beside it as
// Bazel builds both, or in a bundle beside bin/, which nobody else can make there.
// Empty: there is none.
std::string PythonPath() {
  std::error_code error;
  const std::filesystem::path own =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::filesystem::path path = own.filename() == "bin"
                                         ? own.parent_path() / "python"
                                         : own / "torch" / "python";
  return std::filesystem::exists(path / "ringmaster_torch", error)
             ? path.string()
             : "";
}

absl::StatusOr<std::unique_ptr<JobRunner>> MakeRunner(const Listener& listener,
                                                      const WorkerFlags& flags,
                                                      int slot) {
  ASSIGN_OR_RETURN(std::unique_ptr<Accelerator> accelerator,
                   OpenAccelerator(flags, slot));
  if (accelerator != nullptr) {
    LogEvent(LogLevel::kInfo, "accelerator.opened",
             {{"device", accelerator->name()}});
  }
  return MakeProgramRunner(
      {.train =
           MakeJobTrainer(Clock::Real(), listener, flags.threads,
                          MakeShardHost(Clock::Real()), std::move(accelerator)),
       .bench = MakeBenchRunner(Clock::Real(), listener),
       .external = MakeExternalRunner(Clock::Real(), listener,
                                      {.is_allowed = flags.allow_commands,
                                       .threads = flags.threads,
                                       .port_range = flags.port_range,
                                       .python_path = PythonPath(),
                                       .output_file = OutputFileOf(flags)})});
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "sample") {
    std::string program = "worker sample";
    argv[1] = program.data();
    return SampleCommand(argc - 1, argv + 1);
  }
  if (argc > 1 && std::string_view(argv[1]) == "check") {
    std::string program = "worker check";
    argv[1] = program.data();
    return CheckCommand(argc - 1, argv + 1);
  }
  return RunMember(
      {.name = "worker",
       .help = "Joins a coordinator's pool and runs the jobs that it is "
               "given, one after another, until it is stopped. Ends with 143 "
               "after SIGTERM or SIGINT, with 138 where the coordinator cannot "
               "be reached, with 2 on a wrong flag, a name in use or another "
               "service's address. With several slots the exit code is the "
               "worst of theirs. `worker sample --help` tells how to let a "
               "trained language model write.",
       .add_flags = AddWorkerFlags,
       .make_runner = MakeRunner},
      argc, argv);
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
