// All-reduce through our communicator beside NCCL called directly, among the GPUs
// of this machine, in turn in one run. Prints rows (tests/gpu/benchmarks.py).
//
// A GPU is a thread. Both sides sum float32 in place, in memory that is
// registered with NCCL, several sums queued one behind the other; an event
// tells ours that a buffer is ready, as in training. Below a MiB a figure is
// the time of one sum, from there on the bus bandwidth as nccl-tests have it.
// Exit status: 0, 1 for a failure, 2 where there are not two GPUs.
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "tests/gpu/all_reduce/all_reduce_pair.h"
#include "tests/gpu/rows/bench_row.h"
#include "worker/device/cuda/cuda_device.h"

namespace ringmaster {
namespace {

constexpr int kFailed = 1;
constexpr int kCannotRun = 2;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kFactor = 4;  // between two sizes

struct BenchFlags {
  int64_t gpus = 0;
  int64_t min_bytes = 1024;
  int64_t max_bytes = 1024 * kMiB;
  int64_t rounds = 9;
};

void AddFlags(FlagSet& set, BenchFlags& flags) {
  set.Add({.name = "gpus", .help = "How many; 0: all.", .min = 0}, &flags.gpus);
  set.Add({.name = "min_bytes", .help = "The smallest buffer.", .min = 4},
          &flags.min_bytes);
  set.Add({.name = "max_bytes",
           .help = "No buffer is larger; each is 4 times the one before.",
           .min = 4},
          &flags.max_bytes);
  set.Add({.name = "rounds",
           .help = "Of each side, in turn; a figure is their median.",
           .min = 5},
          &flags.rounds);
}

int CountGpus() {
  int count = 0;
  while (CudaDevice::Open(count).ok()) ++count;
  return count;
}

// The number of all-reduces in a round: enough to hide its beginning and end,
// few enough that the sum is exact in a float.
int TimesFor(int64_t bytes) {
  if (bytes <= kMiB) return 20;
  return bytes <= 64 * kMiB ? 10 : 3;
}

BenchRow RowOf(int64_t bytes, int64_t gpus, double ours, double direct) {
  BenchRow row;
  row.what = absl::StrCat("all-reduce, ", BytesText(bytes));
  if (bytes < kMiB) {
    row.unit = "us";
    row.ours = ours * 1e6;
    row.peer = direct * 1e6;
    return row;
  }
  const double moved = static_cast<double>(bytes) * 2 *
                       static_cast<double>(gpus - 1) /
                       static_cast<double>(gpus) / 1e9;
  row.unit = "GB/s";
  row.ours = moved / ours;
  row.peer = moved / direct;
  return row;
}

absl::Status MeasureSize(AllReducePair& pair, const BenchFlags& flags,
                         int64_t bytes) {
  const int times = TimesFor(bytes);
  std::vector<double> seconds[2];
  // The first of each warms up.
  for (int64_t round = 0; round <= flags.rounds; ++round) {
    for (const auto side :
         {AllReducePair::Side::kOurs, AllReducePair::Side::kDirect}) {
      ASSIGN_OR_RETURN(const absl::Duration took, pair.Run(side, bytes, times));
      if (round > 0) {
        seconds[static_cast<int>(side)].push_back(absl::ToDoubleSeconds(took) /
                                                  times);
      }
    }
  }
  BenchRow row =
      RowOf(bytes, flags.gpus, Median(seconds[0]), Median(seconds[1]));
  const int version = pair.nccl_version();
  row.peer_name =
      absl::StrCat("NCCL ", version / 10000, ".", version / 100 % 100, ".",
                   version % 100, " called directly");
  row.note = absl::StrCat(flags.rounds, " rounds in turn, ", flags.gpus,
                          " GPUs like ", pair.device_name());
  PrintRow(row);
  return absl::OkStatus();
}

absl::Status Measure(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<AllReducePair> pair,
      AllReducePair::Create(static_cast<int>(flags.gpus), flags.max_bytes));
  for (int64_t bytes = flags.min_bytes; bytes <= flags.max_bytes;
       bytes *= kFactor) {
    RETURN_IF_ERROR(MeasureSize(*pair, flags, bytes));
  }
  return absl::OkStatus();
}

int Explain(const std::string& why, int code) {
  std::cerr << "error: " << why << std::endl;
  return code;
}

int Main(int argc, const char* const* argv) {
  BenchFlags flags;
  FlagSet set("all_reduce_vs_nccl",
              "All-reduce through our communicator beside NCCL's own.");
  AddFlags(set, flags);
  // Not 2, which says that it cannot run here.
  if (const auto code = set.ParseCommandLine(argc, argv))
    return *code == ExitCode::kDone ? 0 : kFailed;
  if (flags.min_bytes % 4 != 0 || flags.max_bytes < flags.min_bytes) {
    return Explain("--min_bytes: a multiple of 4 and at most --max_bytes",
                   kFailed);
  }
  const int found = CountGpus();
  if (flags.gpus == 0) flags.gpus = found;
  if (flags.gpus < 2 || flags.gpus > found) {
    return Explain(absl::StrCat("it needs ", flags.gpus < 2 ? 2 : flags.gpus,
                                " GPUs, and here is ", found),
                   kCannotRun);
  }
  const absl::Status status = Measure(flags);
  return status.ok() ? 0 : Explain(std::string(status.message()), kFailed);
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
