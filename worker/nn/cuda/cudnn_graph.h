// CudnnGraph describes a graph of operations to cuDNN, and makes of it a
// CudnnPlan: a few kernels, mostly one, that compute all of it.
//
// In the words of cuDNN's backend API ("cuDNN Backend API", NVIDIA): tensors of
// four dimensions are memory of the caller (Real), numbers that are given when
// the plan runs (Number), or only exist inside of the kernel (Virtual).
// Arithmetic is in float. The first error of building is kept, and Compile
// returns it.
// Thread-safety: thread-compatible.
// Ownership: `library` must outlive all.
// Example:
//   CudnnGraph graph(library);
//   const CudnnTensor* x = graph.Real(kX, {shape, strides, CUDNN_DATA_HALF});
//   ...
//   graph.Pointwise(CUDNN_POINTWISE_MUL, {x, graph.Number(0.5f)}, y);
//   ASSIGN_OR_RETURN(auto plan, std::move(graph).Compile(target, options));
//   RETURN_IF_ERROR(plan->Run(handle, {{kX, x_data}, {kY, y_data}}, scratch));
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDNN_GRAPH_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/cuda/cudnn_library.h"

namespace ringmaster::cuda {

// A descriptor of cuDNN's.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(const CudnnLibrary& library) : library_(&library) {}
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : library_(other.library_),
        descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~CudnnDescriptor();

  [[nodiscard]] absl::Status Create(cudnnBackendDescriptorType_t type);
  [[nodiscard]] absl::Status Set(cudnnBackendAttributeName_t name,
                                 cudnnBackendAttributeType_t type,
                                 int64_t count, const void* values);
  [[nodiscard]] absl::Status Get(cudnnBackendAttributeName_t name,
                                 cudnnBackendAttributeType_t type, int64_t most,
                                 int64_t* count, void* values) const;
  // One value.
  template <typename Value>
  [[nodiscard]] absl::Status SetOne(cudnnBackendAttributeName_t name,
                                    cudnnBackendAttributeType_t type,
                                    Value value) {
    return Set(name, type, 1, &value);
  }
  [[nodiscard]] absl::Status SetDescriptor(cudnnBackendAttributeName_t name,
                                           const CudnnDescriptor& other) {
    return SetOne(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }
  [[nodiscard]] absl::Status Finalize();
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  const CudnnLibrary* library_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

using CudnnTensor = CudnnDescriptor;

struct CudnnTensorShape {
  std::array<int64_t, 4> dims;
  std::array<int64_t, 4> strides;  // in elements
  cudnnDataType_t type;
};

// The device that a plan is for: that of a handle, or, with no handle, one of
// which only the properties are known.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* device = nullptr;
};

struct CudnnPlanOptions {
  // The numerical notes that a plan may not have. By default results may not
  // depend on timing.
  std::vector<cudnnBackendNumericalNote_t> refused = {
      CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  int64_t workspace_bytes = 0;  // at most
  // The number of proposals that Compile makes plans of before it gives up;
  // those refused for their notes do not count.
  int most_tried = 16;
};

// The tensor of a convolution that is computed from the two others.
enum class ConvolutionPass { kForward, kBackwardInput, kBackwardWeight };

class CudnnPlan {
 public:
  // Bytes of device memory that Run needs.
  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Queues the plan on the handle's stream. `tensors` has the id and address of
  // each Real tensor.
  [[nodiscard]] absl::Status Run(
      cudnnHandle_t handle,
      const std::vector<std::pair<int64_t, void*>>& tensors, void* workspace);

 private:
  friend class CudnnGraph;
  explicit CudnnPlan(const CudnnLibrary& library)
      : library_(library), plan_(library) {}

  const CudnnLibrary& library_;
  std::deque<CudnnDescriptor> descriptors_;  // that the plan was made from
  CudnnDescriptor plan_;
  std::deque<std::pair<int64_t, float>> numbers_;
  int64_t workspace_bytes_ = 0;
};

class CudnnGraph {
 public:
  // The alignment of the addresses of Real tensors.
  static constexpr int64_t kAlignmentBytes = 16;

  explicit CudnnGraph(const CudnnLibrary& library) : library_(library) {}

  // Tensors; they live as long as the graph. `id` is the caller's, from 1 on.
  const CudnnTensor* Real(int64_t id, const CudnnTensorShape& shape);
  const CudnnTensor* Virtual(const CudnnTensorShape& shape);
  const CudnnTensor* Number(float value);

  // Operations: y = mode(inputs...).
  void Pointwise(cudnnPointwiseMode_t mode,
                 const std::vector<const CudnnTensor*>& inputs,
                 const CudnnTensor* y);
  // y = the index of each element along `axis`; x gives the shape.
  void Index(int64_t axis, const CudnnTensor* x, const CudnnTensor* y);
  // c = a * b, of the last two dimensions.
  void Matmul(const CudnnTensor* a, const CudnnTensor* b, const CudnnTensor* c);
  // Convolves images x with the kernel `weight`, in steps of `stride`, with
  // `padding` zeros around each image; a gradient is passed as the tensor that it
  // belongs to.
  void Convolution(ConvolutionPass pass, int64_t padding, int64_t stride,
                   const CudnnTensor* x, const CudnnTensor* weight,
                   const CudnnTensor* y);
  // Reduces x over the dimensions in which y has size 1.
  void Reduce(cudnnReduceTensorOp_t op, const CudnnTensor* x,
              const CudnnTensor* y);
  void Reshape(const CudnnTensor* x, const CudnnTensor* y);

  // Returns the first plan that cuDNN proposes and the options allow.
  // UNIMPLEMENTED: there is none.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<CudnnPlan>> Compile(
      const CudnnTarget& target, const CudnnPlanOptions& options) &&;

 private:
  CudnnDescriptor& New(cudnnBackendDescriptorType_t type);
  void Check(const absl::Status& status) { status_.Update(status); }
  const CudnnTensor* Tensor(int64_t id, const CudnnTensorShape& shape,
                            bool is_virtual, bool is_number);
  CudnnDescriptor& PointwiseMode(cudnnPointwiseMode_t mode);
  [[nodiscard]] absl::StatusOr<std::vector<CudnnDescriptor>> Propose(
      const CudnnTarget& target, const CudnnDescriptor& graph);
  // UNIMPLEMENTED if the engine of a proposal has one of these notes.
  [[nodiscard]] absl::Status CheckNotes(
      const CudnnDescriptor& config,
      const std::vector<cudnnBackendNumericalNote_t>& refused);
  // Sets plan.plan_ and its workspace_bytes_.
  [[nodiscard]] absl::Status MakePlan(const CudnnTarget& target,
                                      const CudnnPlanOptions& options,
                                      const CudnnDescriptor& config,
                                      CudnnPlan& plan);

  const CudnnLibrary& library_;
  std::deque<CudnnDescriptor> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::deque<std::pair<int64_t, float>> numbers_;
  // The next id for a tensor that the caller does not name.
  int64_t next_id_ = 1'000'000;
  absl::Status status_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDNN_GRAPH_H_
