#include "server/ctl/commands/bench.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/machine/usable_cores.h"
#include "common/plan/mesh.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/render/bench_view.h"
#include "server/ctl/terminal/interrupts.h"
#include "worker/bench/all_reduce_bench.h"
#include "worker/bench/figures.h"

namespace ringmaster::ctl {
namespace {

constexpr int kMaxIterations = 100'000;

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t begin = line.find_first_not_of(": \t", line.find(':'));
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "unknown processor";
}

std::vector<std::string> AlgorithmNames() {
  std::vector<std::string> names = {AlgorithmName(Algorithm::kAuto)};
  for (const Algorithm algorithm : kAlgorithms)
    names.emplace_back(AlgorithmName(algorithm));
  return names;
}

// FlagSet has checked that `name` is one of the choices.
Reduction ReductionNamed(std::string_view name) {
  for (const Reduction reduction :
       {Reduction::kMax, Reduction::kMin, Reduction::kAverage}) {
    if (name == ReductionName(reduction)) return reduction;
  }
  return Reduction::kSum;
}

std::optional<Transport> TransportNamed(std::string_view name) {
  for (const Transport transport :
       {Transport::kTcp, Transport::kUnix, Transport::kSharedMemory}) {
    if (name == TransportName(transport)) return transport;
  }
  return std::nullopt;
}

void AddMeasuringFlags(FlagSet& command, BenchFlags& bench) {
  command.Add({.name = "sizes",
               .unit = "FIRST:LAST",
               .help = "Bytes of the buffer, with K, M or G; or one size."},
              &bench.sizes);
  command.Add({.name = "step",
               .unit = "FACTOR",
               .help = "Each size is this many times the one before.",
               .min = 2,
               .max = 1 << 20},
              &bench.step);
  command.Add({.name = "warmup",
               .unit = "N",
               .help = "Iterations of each size that warm up and do not count.",
               .min = 0,
               .max = kMaxIterations},
              &bench.warmup);
  command.Add({.name = "iterations",
               .unit = "N",
               .help = "Iterations of each size that count.",
               .min = 1,
               .max = kMaxIterations},
              &bench.iterations);
  command.Add({.name = "seconds_per_size",
               .unit = "DURATION",
               .help = "Fewer iterations, but at least 3, if they would take "
                       "longer than this; the same for the warm-up.",
               .min = 0.001,
               .max = 3600},
              &bench.seconds_per_size);
}

// Rings where a poll hears it.
class StopFd {
 public:
  StopFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~StopFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  StopFd(const StopFd&) = delete;
  StopFd& operator=(const StopFd&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  void Ring() {
    const uint64_t one = 1;
    (void)!::write(fd_, &one, sizeof(one));
  }

 private:
  const int fd_;
};

}  // namespace

void AddBenchFlags(FlagSet& flags, BenchFlags& bench) {
  FlagSet& command =
      flags.AddCommand("bench",
                       "Measure all-reduce between the workers of a "
                       "coordinator, or without --coordinator between "
                       "processes of this machine.");
  command.AddArgument(
      "WHAT",
      "allreduce. Every result is checked (#wrong). algbw is bytes / time, "
      "busbw algbw * 2(n-1)/n as in nccl-tests. The percentage is of a limit "
      "of busbw that is measured first. On one host each rank's buffer is at "
      "least read once and written once: B * (n-1)/n^2, where B is what n "
      "ranks that copy memory at once read and write a second. Between hosts "
      "it is what the slowest link between neighbours carries, both ways at "
      "once.",
      /*is_required=*/true, &bench.what);
  command.Add({.name = "ranks",
               .short_name = 'n',
               .unit = "N",
               .help = absl::StrCat("Workers or processes, 2 to ",
                                    kMaxAllReduceBenchRanks,
                                    "; 0: all idle workers, or a process a "
                                    "core, at least 2."),
               .min = 0,
               .max = kMaxAllReduceBenchRanks},
              &bench.ranks);
  command.Add({.name = "transport",
               .help = "The transport; auto: the best available. Between hosts "
                       "it is always tcp.",
               .choices = {"auto", "shared_memory", "unix", "tcp"}},
              &bench.transport);
  command.Add({.name = "connections",
               .unit = "N",
               .help = "Connections to each worker of another host (with "
                       "--coordinator).",
               .min = 1,
               .max = kMaxConnections},
              &bench.connections);
  command.Add({.name = "algorithm",
               .help = "auto chooses by size, as in a job.",
               .choices = AlgorithmNames()},
              &bench.algorithm);
  command.Add({.name = "dtype",
               .help = "Type of the elements.",
               .choices = {"float32", "float64", "int32", "int64", "float16",
                           "bfloat16"}},
              &bench.dtype);
  command.Add(
      {.name = "wire",
       .help = "Type that float32 elements are sent as; by default their own.",
       .choices = {"float16", "bfloat16"}},
      &bench.wire);
  command.Add({.name = "op",
               .help = "The reduction.",
               .choices = {"sum", "max", "min", "average"}},
              &bench.op);
  AddMeasuringFlags(command, bench);
}

absl::StatusOr<AllReduceBenchOptions> ToBenchOptions(const BenchFlags& flags,
                                                     int ranks) {
  if (flags.what != "allreduce") {
    return absl::InvalidArgumentError(
        absl::StrCat("nothing to measure is called \"", flags.what,
                     "\"; usage: ringctl bench allreduce"));
  }
  AllReduceBenchOptions options;
  options.ranks = ranks;
  options.transport = TransportNamed(flags.transport);
  options.connections = flags.connections;
  ASSIGN_OR_RETURN(options.algorithm, ParseAlgorithm(flags.algorithm));
  ASSIGN_OR_RETURN(options.dtype, ParseDType(flags.dtype));
  if (!flags.wire.empty()) {
    ASSIGN_OR_RETURN(options.wire, ParseDType(flags.wire));
  }
  options.reduction = ReductionNamed(flags.op);
  absl::StatusOr<std::vector<int64_t>> sizes =
      ParseSizes(flags.sizes, flags.step);
  if (!sizes.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sizes: ", sizes.status().message()));
  }
  options.sizes = *std::move(sizes);
  options.warmup = flags.warmup;
  options.iterations = flags.iterations;
  options.time_per_size = flags.seconds_per_size;
  return options;
}

absl::StatusOr<AllReduceBenchOptions> ToLocalBenchOptions(
    const BenchFlags& flags) {
  const int ranks = flags.ranks != 0
                        ? flags.ranks
                        : std::clamp(UsableCores(), 2, kMaxAllReduceBenchRanks);
  ASSIGN_OR_RETURN(AllReduceBenchOptions options, ToBenchOptions(flags, ranks));
  if (options.connections != 1) {
    return absl::InvalidArgumentError(
        "--connections is about workers of other hosts: it needs "
        "--coordinator");
  }
  options.is_transport_required = options.transport.has_value();
  RETURN_IF_ERROR(CheckAllReduceBench(options));
  return options;
}

absl::StatusOr<int> RunBench(const BenchFlags& flags, OutputFormat format,
                             Console& console) {
  BenchSetting setting;
  ASSIGN_OR_RETURN(setting.options, ToLocalBenchOptions(flags));
  setting.place = {{"processor", ProcessorName()},
                   {"cores", absl::StrCat(UsableCores())}};
  ASSIGN_OR_RETURN(const std::unique_ptr<AllReduceBench> bench,
                   AllReduceBench::Start(setting.options));
  // Only now: a fork while threads run would copy locks that stay locked for
  // ever.
  StopFd stop;
  const Interrupts interrupts([&stop](int) { stop.Ring(); });
  ASSIGN_OR_RETURN(setting.start, bench->AwaitStart(stop.get()));
  const bool is_table = format == OutputFormat::kTable;
  if (is_table) {
    for (const std::string& line : BenchHeadLines(setting))
      console.Write(absl::StrCat(line, "\n"));
  }
  std::vector<AllReduceBenchRow> rows;
  int64_t wrong = 0;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<AllReduceBenchRow> row,
                     bench->NextRow(stop.get()));
    if (!row.has_value()) break;
    if (is_table)
      console.Write(absl::StrCat(BenchRowLine(setting, *row), "\n"));
    rows.push_back(*row);
    wrong += row->wrong;
  }
  if (!is_table) console.Write(BenchJson(setting, rows));
  if (wrong == 0) return static_cast<int>(ExitCode::kDone);
  return absl::InternalError(absl::StrCat(
      wrong, " elements differ from the expected result (#wrong)"));
}

}  // namespace ringmaster::ctl
