#include "worker/nn/cuda/cudnn_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster::cuda {
namespace {

// The number of proposals to look at, of those that cuDNN thinks the fastest:
// all, as far as seen, since one that is allowed may come late.
constexpr int64_t kMostProposals = 64;

// The names of a pass's operation and of its attributes.
struct ConvolutionNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution;
  cudnnBackendAttributeName_t x;
  cudnnBackendAttributeName_t weight;
  cudnnBackendAttributeName_t y;
  cudnnBackendAttributeName_t alpha;
  cudnnBackendAttributeName_t beta;
};

ConvolutionNames NamesOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      break;
    case ConvolutionPass::kBackwardInput:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionPass::kBackwardWeight:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

}  // namespace

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr)
    library_->functions().BackendDestroyDescriptor(descriptor_);
}

absl::Status CudnnDescriptor::Create(cudnnBackendDescriptorType_t type) {
  return library_->ToStatus(
      library_->functions().BackendCreateDescriptor(type, &descriptor_),
      absl::StrCat("a cuDNN descriptor of type ", type));
}

absl::Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type,
                                  int64_t count, const void* values) {
  return library_->ToStatus(library_->functions().BackendSetAttribute(
                                descriptor_, name, type, count, values),
                            absl::StrCat("cuDNN's attribute ", name));
}

absl::Status CudnnDescriptor::Get(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type,
                                  int64_t most, int64_t* count,
                                  void* values) const {
  return library_->ToStatus(library_->functions().BackendGetAttribute(
                                descriptor_, name, type, most, count, values),
                            absl::StrCat("cuDNN's attribute ", name));
}

absl::Status CudnnDescriptor::Finalize() {
  return library_->ToStatus(library_->functions().BackendFinalize(descriptor_),
                            "cudnnBackendFinalize");
}

absl::Status CudnnPlan::Run(
    cudnnHandle_t handle, const std::vector<std::pair<int64_t, void*>>& tensors,
    void* workspace) {
  std::vector<int64_t> ids;
  std::vector<void*> addresses;
  for (const auto& [id, address] : tensors) {
    ids.push_back(id);
    addresses.push_back(address);
  }
  for (auto& [id, value] : numbers_) {
    ids.push_back(id);
    addresses.push_back(&value);
  }
  const auto count = static_cast<int64_t>(ids.size());
  CudnnDescriptor pack(library_);
  RETURN_IF_ERROR(pack.Create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                           count, ids.data()));
  RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                           CUDNN_TYPE_VOID_PTR, count, addresses.data()));
  RETURN_IF_ERROR(pack.SetOne(CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                              CUDNN_TYPE_VOID_PTR, workspace));
  RETURN_IF_ERROR(pack.Finalize());
  return library_.ToStatus(
      library_.functions().BackendExecute(handle, plan_.get(), pack.get()),
      "cudnnBackendExecute");
}

CudnnDescriptor& CudnnGraph::New(cudnnBackendDescriptorType_t type) {
  CudnnDescriptor& descriptor = descriptors_.emplace_back(library_);
  Check(descriptor.Create(type));
  return descriptor;
}

const CudnnTensor* CudnnGraph::Tensor(int64_t id, const CudnnTensorShape& shape,
                                      bool is_virtual, bool is_number) {
  CudnnDescriptor& tensor = New(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  Check(tensor.SetOne(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id));
  Check(tensor.SetOne(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE,
                      shape.type));
  Check(tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                   shape.dims.size(), shape.dims.data()));
  Check(tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
                   shape.strides.size(), shape.strides.data()));
  Check(tensor.SetOne(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
                      kAlignmentBytes));
  Check(tensor.SetOne(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN,
                      is_virtual));
  Check(tensor.SetOne(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN,
                      is_number));
  Check(tensor.Finalize());
  return &tensor;
}

const CudnnTensor* CudnnGraph::Real(int64_t id, const CudnnTensorShape& shape) {
  return Tensor(id, shape, /*is_virtual=*/false, /*is_number=*/false);
}

const CudnnTensor* CudnnGraph::Virtual(const CudnnTensorShape& shape) {
  return Tensor(next_id_++, shape, /*is_virtual=*/true, /*is_number=*/false);
}

const CudnnTensor* CudnnGraph::Number(float value) {
  numbers_.emplace_back(next_id_, value);
  return Tensor(next_id_++, {{1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT},
                /*is_virtual=*/false, /*is_number=*/true);
}

CudnnDescriptor& CudnnGraph::PointwiseMode(cudnnPointwiseMode_t mode) {
  CudnnDescriptor& pointwise = New(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  Check(pointwise.SetOne(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
                         mode));
  Check(pointwise.SetOne(
      CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
      mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT));
  return pointwise;
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode,
                           const std::vector<const CudnnTensor*>& inputs,
                           const CudnnTensor* y) {
  CudnnDescriptor& pointwise = PointwiseMode(mode);
  Check(pointwise.Finalize());
  CudnnDescriptor& operation =
      New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                                pointwise));
  constexpr cudnnBackendAttributeName_t kInputs[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  for (size_t i = 0; i < inputs.size(); ++i)
    Check(operation.SetDescriptor(kInputs[i], *inputs[i]));
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y));
  Check(operation.Finalize());
  operations_.push_back(operation.get());
}

void CudnnGraph::Index(int64_t axis, const CudnnTensor* x,
                       const CudnnTensor* y) {
  CudnnDescriptor& pointwise = PointwiseMode(CUDNN_POINTWISE_GEN_INDEX);
  Check(pointwise.SetOne(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis));
  Check(pointwise.Finalize());
  CudnnDescriptor& operation =
      New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                                pointwise));
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x));
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y));
  Check(operation.Finalize());
  operations_.push_back(operation.get());
}

void CudnnGraph::Matmul(const CudnnTensor* a, const CudnnTensor* b,
                        const CudnnTensor* c) {
  CudnnDescriptor& matmul = New(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  Check(matmul.SetOne(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                      CUDNN_DATA_FLOAT));
  Check(matmul.Finalize());
  CudnnDescriptor& operation = New(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a));
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b));
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c));
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul));
  Check(operation.Finalize());
  operations_.push_back(operation.get());
}

void CudnnGraph::Convolution(ConvolutionPass pass, int64_t padding,
                             int64_t stride, const CudnnTensor* x,
                             const CudnnTensor* weight, const CudnnTensor* y) {
  constexpr int64_t kDirections = 2;
  constexpr int64_t kOnes[kDirections] = {1, 1};
  const int64_t paddings[kDirections] = {padding, padding};
  CudnnDescriptor& convolution = New(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  Check(convolution.SetOne(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
                           CUDNN_TYPE_INT64, kDirections));
  Check(convolution.SetOne(CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
                           CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT));
  // The kernel is not turned around first.
  Check(convolution.SetOne(CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                           CUDNN_TYPE_CONVOLUTION_MODE,
                           CUDNN_CROSS_CORRELATION));
  for (const auto border : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                            CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
    Check(convolution.Set(border, CUDNN_TYPE_INT64, kDirections, paddings));
  }
  const int64_t strides[kDirections] = {stride, stride};
  Check(convolution.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64,
                        kDirections, kOnes));
  Check(convolution.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64,
                        kDirections, strides));
  Check(convolution.Finalize());
  const ConvolutionNames names = NamesOf(pass);
  CudnnDescriptor& operation = New(names.operation);
  Check(operation.SetDescriptor(names.convolution, convolution));
  Check(operation.SetDescriptor(names.x, *x));
  Check(operation.SetDescriptor(names.weight, *weight));
  Check(operation.SetDescriptor(names.y, *y));
  Check(operation.SetOne(names.alpha, CUDNN_TYPE_FLOAT, 1.0f));
  Check(operation.SetOne(names.beta, CUDNN_TYPE_FLOAT, 0.0f));
  Check(operation.Finalize());
  operations_.push_back(operation.get());
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t op, const CudnnTensor* x,
                        const CudnnTensor* y) {
  CudnnDescriptor& reduction = New(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  Check(reduction.SetOne(CUDNN_ATTR_REDUCTION_OPERATOR,
                         CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op));
  Check(reduction.SetOne(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                         CUDNN_DATA_FLOAT));
  Check(reduction.Finalize());
  CudnnDescriptor& operation =
      New(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x));
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y));
  Check(
      operation.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction));
  Check(operation.Finalize());
  operations_.push_back(operation.get());
}

void CudnnGraph::Reshape(const CudnnTensor* x, const CudnnTensor* y) {
  CudnnDescriptor& operation = New(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x));
  Check(operation.SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y));
  Check(operation.Finalize());
  operations_.push_back(operation.get());
}

absl::StatusOr<std::vector<CudnnDescriptor>> CudnnGraph::Propose(
    const CudnnTarget& target, const CudnnDescriptor& graph) {
  CudnnDescriptor heuristics(library_);
  RETURN_IF_ERROR(heuristics.Create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  RETURN_IF_ERROR(
      heuristics.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
  RETURN_IF_ERROR(heuristics.SetOne(CUDNN_ATTR_ENGINEHEUR_MODE,
                                    CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A));
  if (target.device != nullptr)
    RETURN_IF_ERROR(heuristics.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                             *target.device));
  RETURN_IF_ERROR(heuristics.Finalize());
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> places;
  for (int64_t i = 0; i < kMostProposals; ++i) {
    configs.emplace_back(library_);
    RETURN_IF_ERROR(configs.back().Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    places.push_back(configs.back().get());
  }
  int64_t count = 0;
  RETURN_IF_ERROR(heuristics.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostProposals,
                                 &count, places.data()));
  while (static_cast<int64_t>(configs.size()) > count) configs.pop_back();
  return configs;
}

absl::Status CudnnGraph::CheckNotes(
    const CudnnDescriptor& config,
    const std::vector<cudnnBackendNumericalNote_t>& refused) {
  CudnnDescriptor engine(library_);
  RETURN_IF_ERROR(engine.Create(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t place = engine.get();
  int64_t count = 0;
  RETURN_IF_ERROR(config.Get(CUDNN_ATTR_ENGINECFG_ENGINE,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &place));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT>
      notes = {};
  RETURN_IF_ERROR(engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                             CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &count,
                             notes.data()));
  const auto end = notes.begin() + std::min<int64_t>(count, notes.size());
  const auto found =
      std::find_first_of(notes.begin(), end, refused.begin(), refused.end());
  if (found == end) return absl::OkStatus();
  return absl::UnimplementedError(
      *found == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
          ? "its results depend on timing"
          : absl::StrCat("it loses digits (cuDNN's numerical note ", *found,
                         ")"));
}

absl::Status CudnnGraph::MakePlan(const CudnnTarget& target,
                                  const CudnnPlanOptions& options,
                                  const CudnnDescriptor& config,
                                  CudnnPlan& plan) {
  CudnnDescriptor made(library_);
  RETURN_IF_ERROR(made.Create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  RETURN_IF_ERROR(
      made.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config));
  if (target.handle != nullptr)
    RETURN_IF_ERROR(made.SetOne(CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                CUDNN_TYPE_HANDLE, target.handle));
  RETURN_IF_ERROR(made.Finalize());
  int64_t count = 0;
  RETURN_IF_ERROR(made.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                           CUDNN_TYPE_INT64, 1, &count,
                           &plan.workspace_bytes_));
  if (plan.workspace_bytes_ > options.workspace_bytes)
    return absl::UnimplementedError(
        absl::StrCat("it needs ", plan.workspace_bytes_, " bytes of scratch"));
  plan.plan_ = std::move(made);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> CudnnGraph::Compile(
    const CudnnTarget& target, const CudnnPlanOptions& options) && {
  CudnnDescriptor& graph = New(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  RETURN_IF_ERROR(status_);
  if (target.handle != nullptr)
    RETURN_IF_ERROR(graph.SetOne(CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                                 CUDNN_TYPE_HANDLE, target.handle));
  RETURN_IF_ERROR(
      graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                static_cast<int64_t>(operations_.size()), operations_.data()));
  RETURN_IF_ERROR(graph.Finalize());
  ASSIGN_OR_RETURN(std::vector<CudnnDescriptor> configs,
                   Propose(target, graph));
  std::unique_ptr<CudnnPlan> plan(new CudnnPlan(library_));
  absl::Status refused =
      absl::UnimplementedError("cuDNN proposes no plan for the graph");
  int tried = 0;
  for (CudnnDescriptor& config : configs) {
    absl::Status status = CheckNotes(config, options.refused);
    if (status.ok()) {
      if (++tried > options.most_tried) break;
      status = MakePlan(target, options, config, *plan);
    }
    if (status.ok()) {
      descriptors_.push_back(std::move(config));
      plan->descriptors_ = std::move(descriptors_);
      plan->numbers_ = std::move(numbers_);
      return plan;
    }
    refused = std::move(status);
  }
  return refused;
}

}  // namespace ringmaster::cuda
