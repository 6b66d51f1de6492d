// Our side of step_vs_torch; models.py says what a side is.
//
// Its step is a worker's whole step, so it has more to do than PyTorch's: the
// batch comes from the data set through the host, the gradient's norm is taken,
// and the update is agreed upon.
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/gpu/step_vs_torch/our_models.h"
#include "tests/gpu/step_vs_torch/step_flags.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_profiler.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/train/cuda/cuda_accelerator.h"
#include "worker/train/testing/timed_rounds.h"

namespace ringmaster {
namespace {

constexpr int kFailed = 1;
constexpr int kCannotRun = 2;
constexpr int64_t kWarmup = 5;  // steps
constexpr int64_t kProfiled = 3;

void Say(const std::string& kind, const nlohmann::json& what) {
  std::cout << nlohmann::json{{kind, what}}.dump() << std::endl;
}

// The conversation with who measures, and what is known at its end.
class Conversation {
 public:
  Conversation(int64_t steps, std::string settings, const CudaDevice& device,
               int64_t free_bytes)
      : steps_(steps),
        settings_(std::move(settings)),
        device_(device),
        free_at_start_(free_bytes),
        least_free_(free_bytes) {}

  // Steps of the next round; 0: the input has ended, or status() is an error.
  int64_t Next(const TimedRound& round) {
    if (round.steps == 0) return kWarmup;
    loss_ = round.loss;
    if (profiler_ != nullptr) {
      SayProfile();
    } else if (!NoteMemory()) {
      return 0;
    } else if (is_ready_) {
      Say("round",
          {{"seconds", absl::ToDoubleSeconds(round.duration)},
           {"computed_seconds", absl::ToDoubleSeconds(round.computed)}});
    } else {
      Say("ready", {{"name", "Ringmaster"}, {"settings", settings_}});
      is_ready_ = true;
    }
    return AwaitCommand();
  }

  void End() const {
    const double gib =
        static_cast<double>(free_at_start_ - least_free_) / (1 << 30);
    Say("end", {{"peak_memory_gib", gib}, {"loss", loss_}});
  }

  const absl::Status& status() const { return status_; }

 private:
  int64_t AwaitCommand() {
    for (std::string line; std::getline(std::cin, line);) {
      if (line == "round") return steps_;
      if (line == "profile") {
        if (StartProfile()) return kProfiled;
      } else if (!line.empty()) {
        status_ = absl::InvalidArgumentError(absl::StrCat(
            "'", line, "' is no command; a line is 'round' or 'profile'"));
        return 0;
      }
    }
    return 0;
  }

  // Whether steps are to follow.
  bool StartProfile() {
    absl::StatusOr<std::unique_ptr<CudaProfiler>> profiler =
        CudaProfiler::Start();
    if (!profiler.ok()) {
      SayNoProfile(profiler.status());
      return false;
    }
    profiler_ = *std::move(profiler);
    return true;
  }
  void SayProfile() {
    const absl::StatusOr<GpuProfile> profile = profiler_->Stop();
    profiler_ = nullptr;
    // From here on, memory is CUPTI's too.
    is_memory_known_ = true;
    if (!profile.ok()) return SayNoProfile(profile.status());
    nlohmann::json kernels = nlohmann::json::array();
    for (const GpuActivity& activity : profile->activities) {
      kernels.push_back({activity.name, activity.count,
                         absl::ToDoubleMicroseconds(activity.time)});
    }
    Say("profile",
        {{"steps", kProfiled}, {"kernels", kernels}, {"lost", profile->lost}});
  }
  static void SayNoProfile(const absl::Status& why) {
    Say("profile", {{"why", std::string(why.message())}});
  }

  // Nothing that a step takes is given back before the end.
  bool NoteMemory() {
    if (is_memory_known_) return true;
    const absl::StatusOr<int64_t> free_bytes = device_.FreeBytes();
    status_.Update(free_bytes.status());
    if (free_bytes.ok()) least_free_ = std::min(least_free_, *free_bytes);
    return free_bytes.ok();
  }

  const int64_t steps_;
  const std::string settings_;
  const CudaDevice& device_;
  const int64_t free_at_start_;
  int64_t least_free_;
  bool is_ready_ = false;
  bool is_memory_known_ = false;
  std::unique_ptr<CudaProfiler> profiler_;  // while it runs
  double loss_ = 0;
  absl::Status status_;
};

absl::Status Serve(const StepFlags& flags, const CudaDevice& device,
                   int64_t free_bytes, Accelerator& accelerator) {
  std::string directory =
      (std::filesystem::temp_directory_path() / "our_step.XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat(directory, ": cannot be made; set TMPDIR"));
  }
  const absl::Cleanup remove = [&directory] {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  };
  if (flags.model == "cnn")
    RETURN_IF_ERROR(WriteImages(directory, flags.batch));
  Conversation conversation(
      flags.steps,
      absl::StrCat("fp32 parameters, whole steps with data and commit, ",
                   device.name()),
      device, free_bytes);
  RETURN_IF_ERROR(TrainInRounds(
      StepProgram(flags.model, flags.batch, flags.precision, directory),
      &accelerator,
      {.await_idle =
           [] {
             return CudaStatus(cudaDeviceSynchronize(), "waiting for a round");
           },
       .next = [&](const TimedRound& r) { return conversation.Next(r); }}));
  RETURN_IF_ERROR(conversation.status());
  conversation.End();
  return absl::OkStatus();
}

int Explain(const absl::Status& status, int code) {
  std::cerr << "error: " << status.message() << std::endl;
  return code;
}

int Main(int argc, const char* const* argv) {
  StepFlags flags;
  FlagSet set("our_step", "Our training step, timed: see models.py.");
  AddStepFlags(set, flags);
  // Not 2, which says that it cannot run here.
  if (const auto code = set.ParseCommandLine(argc, argv))
    return *code == ExitCode::kDone ? 0 : kFailed;
  const auto device = CudaDevice::Open(0);
  if (!device.ok()) return Explain(device.status(), kCannotRun);
  // Memory used from here on is the training's.
  const absl::StatusOr<int64_t> free_bytes = (*device)->FreeBytes();
  if (!free_bytes.ok()) return Explain(free_bytes.status(), kFailed);
  const auto accelerator = OpenCudaAccelerator({});
  if (!accelerator.ok()) return Explain(accelerator.status(), kCannotRun);
  const absl::Status status =
      Serve(flags, **device, *free_bytes, **accelerator);
  return status.ok() ? 0 : Explain(status, kFailed);
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
