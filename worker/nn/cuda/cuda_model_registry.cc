#include "worker/nn/cuda/cuda_model_registry.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The operators of the models, for argument-dependent lookup.
#include "worker/nn/cuda/activations.h"
#include "worker/nn/cuda/attention.h"
#include "worker/nn/cuda/batch_norm.h"
#include "worker/nn/cuda/classifier.h"
#include "worker/nn/cuda/classifier_scratch.h"
#include "worker/nn/cuda/conv2d.h"
#include "worker/nn/cuda/embedding.h"
#include "worker/nn/cuda/fill_zero.h"
#include "worker/nn/cuda/gather.h"
#include "worker/nn/cuda/layer_norm.h"
#include "worker/nn/cuda/linear.h"
#include "worker/nn/cuda/pooling.h"
#include "worker/nn/cuda/rotary.h"
#include "worker/nn/cuda/self_attention.h"
#include "worker/nn/cuda/strided_conv.h"
#include "worker/nn/cuda/texts.h"
#include "worker/nn/models.h"

namespace ringmaster::cuda {

absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaModel(
    const CudaModelParts& parts, Precision precision,
    const ModelConfig& config) {
  switch (precision) {
    case Precision::kBFloat16:
      return CreateModelOn<CudaModel<__nv_bfloat16>>(parts, config);
    case Precision::kFloat16:
      return CreateModelOn<CudaModel<__half>>(parts, config);
    case Precision::kFloat32:
    case Precision::kTf32:
      break;  // parts.compute knows which
  }
  return CreateModelOn<CudaModel<float>>(parts, config);
}

}  // namespace ringmaster::cuda
