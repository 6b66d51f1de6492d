// How much of the gradients' communication the backward pass hides, on one GPU
// with a simulated link (simulated_link.h). Prints rows (tests/gpu/benchmarks.py):
// "ours" with overlap, as a worker trains, "peer" with all buckets started after
// the backward pass.
//
// Rounds of steps are in turn without the link, with overlap, without overlap; a
// figure is the median of the rounds. Exit status: 0, 1 for a failure, 2 where it
// cannot run.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "tests/gpu/overlap/link_accelerator.h"
#include "tests/gpu/overlap/simulated_link.h"
#include "tests/gpu/rows/bench_row.h"
#include "tests/gpu/step_vs_torch/our_models.h"
#include "tests/gpu/step_vs_torch/step_flags.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/train/cuda/cuda_accelerator.h"
#include "worker/train/testing/timed_rounds.h"

namespace ringmaster {
namespace {

using Mode = SimulatedLink::Mode;

constexpr int kFailed = 1;
constexpr int kCannotRun = 2;
constexpr Mode kModes[] = {Mode::kOff, Mode::kOverlapped, Mode::kAfter};

struct OverlapFlags {
  StepFlags step = {.model = "gpt2-124m", .batch = 64, .steps = 5};
  int64_t rounds = 5;
  int64_t ranks = 8;
  int64_t bucket_bytes = 0;
  double rate = 25;
};

void AddFlags(FlagSet& set, OverlapFlags& flags) {
  AddStepFlags(set, flags.step);
  set.Add({.name = "rounds",
           .help = "Of each kind, in turn; a figure is their median.",
           .min = 5},
          &flags.rounds);
  set.Add({.name = "ranks", .help = "Of the ring that is simulated.", .min = 2},
          &flags.ranks);
  set.Add({.name = "rate", .help = "Of the link, in GB/s.", .min = 1e-6},
          &flags.rate);
  set.Add({.name = "bucket_bytes",
           .help = "Gradients reduced together; 0: as jobs have it.",
           .min = 0},
          &flags.bucket_bytes);
}

// The rounds of one mode: milliseconds of a step, by round.
struct Figures {
  std::vector<double> step;
  std::vector<double> busy;
  std::vector<double> exposed;
};

// The rounds, and what they showed.
class Rounds {
 public:
  Rounds(const OverlapFlags& flags, SimulatedLink& link)
      : flags_(flags), link_(link) {}

  // Steps of the round after the one that has ended. The first of each mode
  // warms up.
  int64_t Next(const TimedRound& round) {
    if (round.steps > 0) Note(round);
    if (round_ == (flags_.rounds + 1) * std::ssize(kModes)) return 0;
    link_.SetMode(kModes[round_++ % std::ssize(kModes)]);
    return flags_.step.steps;
  }

  const Figures& of(Mode mode) const {
    return figures_[static_cast<size_t>(mode)];
  }

 private:
  void Note(const TimedRound& round) {
    const std::vector<SimulatedLink::Step> steps = link_.TakeSteps();
    const int64_t number = round_ - 1;
    if (number < std::ssize(kModes)) return;
    Figures& figures =
        figures_[static_cast<size_t>(kModes[number % std::ssize(kModes)])];
    const auto count = static_cast<double>(round.steps);
    SimulatedLink::Step sum;
    for (const SimulatedLink::Step& step : steps) {
      sum.busy += step.busy;
      sum.exposed += step.exposed;
    }
    figures.step.push_back(absl::ToDoubleMilliseconds(round.duration) / count);
    figures.busy.push_back(absl::ToDoubleMilliseconds(sum.busy) / count);
    figures.exposed.push_back(absl::ToDoubleMilliseconds(sum.exposed) / count);
  }

  const OverlapFlags& flags_;
  SimulatedLink& link_;
  int64_t round_ = 0;  // that comes next
  Figures figures_[std::size(kModes)];
};

double Hidden(const Figures& figures) {
  return 100 *
         std::max(0.0, 1 - Median(figures.exposed) / Median(figures.busy));
}

void PrintRows(const OverlapFlags& flags, const Rounds& rounds,
               const std::string& device) {
  const std::string title = absl::StrFormat(
      "%s, B=%d, %s, ring of %d over %g GB/s", flags.step.model,
      flags.step.batch, flags.step.precision, flags.ranks, flags.rate);
  const Figures& ours = rounds.of(Mode::kOverlapped);
  const Figures& after = rounds.of(Mode::kAfter);
  const std::string peer = "without overlap";
  PrintRow({title + ": exposed communication", "ms a step",
            Median(ours.exposed), Median(after.exposed), peer,
            absl::StrFormat("%d rounds of %d steps, %s; the link is simulated "
                            "by copies to the host",
                            flags.rounds, flags.step.steps, device)});
  PrintRow({title + ": all communication", "ms a step", Median(ours.busy),
            Median(after.busy), peer});
  PrintRow({title + ": hidden", "%", Hidden(ours), Hidden(after), peer});
  PrintRow({title + ": step", "ms", Median(ours.step), Median(after.step), peer,
            absl::StrFormat("%.3f ms without communication",
                            Median(rounds.of(Mode::kOff).step))});
}

absl::Status Measure(const OverlapFlags& flags, CudaDevice& device,
                     Accelerator& accelerator) {
  RETURN_IF_ERROR(accelerator.Enter());
  ASSIGN_OR_RETURN(
      const std::unique_ptr<SimulatedLink> link,
      SimulatedLink::Create(device, {.ranks = static_cast<int>(flags.ranks),
                                     .bytes_per_second = flags.rate * 1e9}));
  LinkAccelerator linked(accelerator, *link);
  v1::TrainProgram program =
      StepProgram(flags.step.model, flags.step.batch, flags.step.precision,
                  /*directory=*/"");
  if (flags.bucket_bytes > 0) program.set_bucket_bytes(flags.bucket_bytes);
  Rounds rounds(flags, *link);
  RETURN_IF_ERROR(TrainInRounds(
      program, &linked,
      {.await_idle =
           [] {
             return CudaStatus(cudaDeviceSynchronize(), "waiting for a round");
           },
       .next = [&](const TimedRound& r) { return rounds.Next(r); }}));
  PrintRows(flags, rounds, device.name());
  return absl::OkStatus();
}

int Explain(const std::string& why, int code) {
  std::cerr << "error: " << why << std::endl;
  return code;
}

int Main(int argc, const char* const* argv) {
  OverlapFlags flags;
  FlagSet set("overlap", "How much communication the backward pass hides.");
  AddFlags(set, flags);
  // Not 2, which says that it cannot run here.
  if (const auto code = set.ParseCommandLine(argc, argv))
    return *code == ExitCode::kDone ? 0 : kFailed;
  if (flags.step.model == "cnn") {
    return Explain("--model: cnn has too few parameters to tell", kFailed);
  }
  const auto device = CudaDevice::Open(0);
  if (!device.ok()) {
    return Explain(std::string(device.status().message()), kCannotRun);
  }
  const auto accelerator = OpenCudaAccelerator({});
  if (!accelerator.ok()) {
    return Explain(std::string(accelerator.status().message()), kCannotRun);
  }
  const absl::Status status = Measure(flags, **device, **accelerator);
  return status.ok() ? 0 : Explain(std::string(status.message()), kFailed);
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
