#include "worker/train/cuda/cuda_accelerator.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "common/status/status_macros.h"
#include "worker/collective/nccl/nccl_communicator.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/member/collective_config.h"
#include "worker/member/end_process.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/cuda/cuda_model_registry.h"
#include "worker/nn/cuda/cudnn_attention.h"
#include "worker/nn/cuda/cudnn_convolution.h"
#include "worker/nn/cuda/matmul.h"
#include "worker/train/cuda/cuda_arenas.h"
#include "worker/train/cuda/peak_flops.h"

namespace ringmaster {
namespace {

// Returns true if this process was started with NCCL limited to rings. First
// called before this process sets variables of NCCL's itself.
bool IsRingWanted() {
  static const bool is_wanted = [] {
    const char* const algorithm = std::getenv("NCCL_ALGO");
    return algorithm != nullptr && absl::EqualsIgnoreCase(algorithm, "ring");
  }();
  return is_wanted;
}

class CudaAccelerator final : public Accelerator {
 public:
  explicit CudaAccelerator(std::unique_ptr<CudaDevice> device)
      : device_(std::move(device)) {}

  [[nodiscard]] absl::Status Open(const CudaAcceleratorOptions& options);

  const std::string& name() const override { return device_->name(); }
  absl::Status Enter() override { return device_->MakeCurrent(); }
  bool IsLost(const absl::Status& status) const override;
  double PeakFlops(Precision precision) const override {
    return CudaPeakFlops(device_->compute_capability(),
                         device_->multiprocessors(), device_->clock_hertz(),
                         precision);
  }
  Allocator& host_allocator() override { return device_->pinned_allocator(); }

  absl::StatusOr<std::unique_ptr<Model<float>>> CreateModel(
      const ModelConfig& config, Precision precision,
      int64_t max_batch) override {
    ASSIGN_OR_RETURN(cuda::CudaMatmul * matmul, MatmulFor(precision));
    return cuda::CreateCudaModel(
        {.device = *device_,
         .compute = {.stream = *stream_,
                     .matmul = *matmul,
                     .cudnn_attention = cudnn_attention_.get(),
                     .cudnn_convolution = cudnn_convolution_.get()},
         .max_batch = max_batch,
         .use_graphs = options_.use_graphs},
        precision, config);
  }
  absl::StatusOr<std::unique_ptr<AcceleratorArenas>> CreateArenas(
      const Plan& plan, const ArenaOptions& options) override {
    return CudaArenas::Create(*device_, *stream_, plan, options, [this] {
      // NCCL may have registered the gradients.
      const absl::Status freed = retired_.Drain();
      if (!freed.ok()) EndProcess("accelerator.abort_hangs", freed);
    });
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      std::unique_ptr<Communicator> host,
      const CommunicatorOptions& options) override;

 private:
  // Returns the object that multiplies at `precision`.
  [[nodiscard]] absl::StatusOr<cuda::CudaMatmul*> MatmulFor(
      Precision precision);

  const std::unique_ptr<CudaDevice> device_;
  CudaAcceleratorOptions options_;
  NcclSettings nccl_settings_;
  NcclRetired retired_;
  std::unique_ptr<CudaStream> stream_;
  // Made when first asked for: each has scratch of its own.
  std::unique_ptr<cuda::CudaMatmul> matmul_;
  std::unique_ptr<cuda::CudaMatmul> tf32_matmul_;
  std::unique_ptr<cuda::CudnnAttention> cudnn_attention_;      // null: ours
  std::unique_ptr<cuda::CudnnConvolution> cudnn_convolution_;  // null: ours
};

absl::Status CudaAccelerator::Open(const CudaAcceleratorOptions& options) {
  options_ = options;
  // While the process starts, see ApplyNcclSettings.
  nccl_settings_ = {.share_gpu = options.share_gpu, .ring = IsRingWanted()};
  RETURN_IF_ERROR(ApplyNcclSettings(nccl_settings_));
  ASSIGN_OR_RETURN(stream_, CudaStream::Create("compute"));
  ASSIGN_OR_RETURN(
      cudnn_attention_,
      cuda::CudnnAttention::Create(options.attention, *device_, *stream_));
  ASSIGN_OR_RETURN(
      cudnn_convolution_,
      cuda::CudnnConvolution::Create(options.convolution, *device_, *stream_));
  // A missing cuBLASLt is better reported now than with the first job.
  return MatmulFor(Precision::kFloat32).status();
}

bool CudaAccelerator::IsLost(const absl::Status& status) const {
  if (status.ok()) return false;
  // The stream keeps its first error for good, and the state after an error of
  // queued work is unknown. And if NCCL meets a faulty device first, only
  // asking the device shows it.
  const cudaError_t error = cudaStreamQuery(stream_->get());
  return IsContextLost(status) || !stream_->status().ok() ||
         (error != cudaSuccess && error != cudaErrorNotReady);
}

absl::StatusOr<cuda::CudaMatmul*> CudaAccelerator::MatmulFor(
    Precision precision) {
  const bool is_tf32 = precision == Precision::kTf32;
  std::unique_ptr<cuda::CudaMatmul>& matmul = is_tf32 ? tf32_matmul_ : matmul_;
  if (matmul == nullptr) {
    ASSIGN_OR_RETURN(matmul,
                     cuda::CudaMatmul::Create(
                         *device_, *stream_,
                         {.use_tf32 = is_tf32,
                          .measure = options_.tune,
                          .cache_directory = options_.cache_directory}));
  }
  return matmul.get();
}

// Refuses what a job asks of the host's collectives if NCCL cannot do it or
// decides it itself.
absl::Status CheckCollectives(const CollectiveConfig& config, bool is_ring) {
  if (config.wire.has_value() && *config.wire != DType::kFloat32) {
    return absl::InvalidArgumentError(
        "train.collective.wire: between GPUs gradients travel as float32; "
        "leave "
        "it out");
  }
  if (config.algorithm == Algorithm::kAuto ||
      (config.algorithm == Algorithm::kRing && is_ring)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "train.collective.algorithm: between GPUs it is NCCL's own choice "
      "(auto), "
      "or ring where the workers were started with NCCL_ALGO=Ring");
}

absl::StatusOr<std::unique_ptr<Communicator>> CudaAccelerator::Connect(
    std::unique_ptr<Communicator> host, const CommunicatorOptions& options) {
  RETURN_IF_ERROR(CheckCollectives(options.collective, nccl_settings_.ring));
  return NcclCommunicator::Create(
      {.device = device_.get(),
       .compute = stream_.get(),
       .generation = options.generation,
       .settings = nccl_settings_,
       .arena = options.gradients,
       .clock = &options.clock,
       .trace = &options.trace,
       .retired = &retired_,
       .on_abort_hung =
           [](const absl::Status& why) {
             EndProcess("accelerator.abort_hangs", why);
           }},
      std::move(host), options.clock.Now() + options.connect_timeout,
      &options.cancel);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Accelerator>> OpenCudaAccelerator(
    const CudaAcceleratorOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                   CudaDevice::Open(options.ordinal));
  auto accelerator = std::make_unique<CudaAccelerator>(std::move(device));
  RETURN_IF_ERROR(accelerator->Open(options));
  return accelerator;
}

}  // namespace ringmaster
