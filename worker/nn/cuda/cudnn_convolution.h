// CudnnConvolution computes convolutions by cuDNN, without the matrix of
// patches that conv2d.h's own way writes and reads. It is known to be faster
// elsewhere; that has not been measured here.
//
// A plan is made for each shape and type that is met, and kept. Where cuDNN has
// none, that is logged once (convolution.no_cudnn_plan), and the caller
// computes otherwise. It has none for the gradient of a weight of 16 bits whose
// channels are no multiple of 8.
//
// Guarantees: results do not depend on timing, and sums are made in float.
// Thread-safety: thread-compatible; all calls are queued on one stream.
// Ownership: device and stream must outlive it.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDNN_CONVOLUTION_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDNN_CONVOLUTION_H_

#include <cudnn.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/nn/conv2d.h"
#include "worker/nn/cuda/cudnn_graph.h"
#include "worker/nn/cuda/cudnn_session.h"

namespace ringmaster::cuda {

class CudnnConvolution {
 public:
  // As CudnnSession::Create; the event is convolution.no_cudnn.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudnnConvolution>> Create(
      KernelChoice choice, CudaDevice& device, CudaStream& stream);

  // Each queues what its namesake in conv2d.h does, and returns true; or does
  // nothing and returns false: cuDNN cannot do it, or would have to make a plan
  // during a stream capture. Products of floats round their factors to TF32
  // with `use_tf32`. T is float, __nv_bfloat16 or __half. Errors are the
  // stream's. A shape may have a stride, and the bias may be null.
  template <typename T>
  bool Forward(const Conv2dShape& shape, bool use_tf32, const T* x,
               const T* weight, const T* bias, T* y);
  template <typename T>
  bool BackwardInput(const Conv2dShape& shape, bool use_tf32, const T* dy,
                     const T* weight, T* dx);
  // dweight =
  template <typename T>
  bool BackwardWeight(const Conv2dShape& shape, bool use_tf32, const T* dy,
                      const T* x, float* dweight);

 private:
  struct Key {
    ConvolutionPass pass;
    cudnnDataType_t type;
    bool use_tf32;
    int64_t batch;
    int64_t height;
    int64_t width;
    int64_t in;
    int64_t out;
    int64_t kernel;
    int64_t stride;
    bool has_bias;
    auto operator<=>(const Key&) const = default;
  };

  explicit CudnnConvolution(std::unique_ptr<CudnnSession> session)
      : session_(std::move(session)) {}
  bool Run(ConvolutionPass pass, cudnnDataType_t type, bool use_tf32,
           const Conv2dShape& shape, const CudnnAddresses& tensors);
  // Null: there is none.
  CudnnPlan* PlanOf(const Key& key, const Conv2dShape& shape);

  const std::unique_ptr<CudnnSession> session_;
  std::map<Key, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDNN_CONVOLUTION_H_
