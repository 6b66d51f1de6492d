#include "worker/nn/cuda/matmul.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/nn/cuda/activations.h"
#include "worker/nn/cuda/add_bias.h"
#include "worker/nn/cuda/capture.h"

namespace ringmaster::cuda {
namespace {

// Algorithms that are tried, how often each is timed at once, and in how many
// turns: a GPU's clock takes a while to rise, which must not tell against the
// first.
constexpr int kCandidates = 24;
constexpr int kTimedRuns = 4;
constexpr int kTurns = 2;
// No algorithm asks for more.
constexpr uintptr_t kMostAlignment = 16;

// Behind the name of a product in MatmulPlanFile: what follows it is faster as
// a kernel of its own.
constexpr const char* kApart = " apart";

template <typename T>
constexpr cudaDataType_t kDataType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kDataType<__nv_bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kDataType<__half> = CUDA_R_16F;

int64_t SizeOf(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

// The largest power of two, up to kMostAlignment, that divides all addresses.
int AlignmentOf(const ProductOperands& operands) {
  uintptr_t bits = kMostAlignment;
  const void* const all[] = {operands.a, operands.b, operands.c, operands.bias,
                             operands.aux};
  for (const void* operand : all) bits |= reinterpret_cast<uintptr_t>(operand);
  return static_cast<int>(bits & -bits);
}

ProductKey KeyOf(const MatmulShape& shape, cudaDataType_t input,
                 cudaDataType_t output, bool use_tf32) {
  const auto [m, n, k] = shape.size;
  const auto stride = [](int64_t given, Transpose transpose, int64_t plain,
                         int64_t turned) {
    if (given != 0) return given;
    return transpose == Transpose::kYes ? turned : plain;
  };
  return {.transpose_a = shape.transpose_a,
          .transpose_b = shape.transpose_b,
          .m = m,
          .n = n,
          .k = k,
          .a_stride = stride(shape.a_stride, shape.transpose_a, k, m),
          .b_stride = stride(shape.b_stride, shape.transpose_b, n, k),
          .c_stride = stride(shape.c_stride, Transpose::kNo, n, n),
          .input = input,
          .output = output,
          .use_tf32 = use_tf32 && input == CUDA_R_32F};
}

// Returns true if they differ in m or in k at most, by up to a factor of two.
bool AreNear(const ProductKey& a, const ProductKey& b) {
  const auto is_near = [](int64_t x, int64_t y) {
    return x <= 2 * y && y <= 2 * x;
  };
  ProductKey same_m = a;
  same_m.m = b.m;
  ProductKey same_k = a;
  same_k.k = b.k;
  return (same_m == b && is_near(a.m, b.m)) ||
         (same_k == b && is_near(a.k, b.k));
}

template <typename T>
Epilogue EpilogueOf(const MatmulOutput<T>& output) {
  if (output.gelu_input != nullptr) return Epilogue::kGeluBackward;
  if (output.pre != nullptr)
    return output.bias != nullptr ? Epilogue::kGeluBias : Epilogue::kGelu;
  return output.bias != nullptr ? Epilogue::kBias : Epilogue::kNone;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaMatmul>> CudaMatmul::Create(
    CudaDevice& device, CudaStream& stream, MatmulOptions options) {
  ASSIGN_OR_RETURN(CublasLtLibrary library, CublasLtLibrary::Load());
  std::unique_ptr<CudaMatmul> matmul(
      new CudaMatmul(device, stream, std::move(options), std::move(library)));
  RETURN_IF_ERROR(matmul->Start());
  return matmul;
}

CudaMatmul::CudaMatmul(CudaDevice& device, CudaStream& stream,
                       MatmulOptions options, CublasLtLibrary library)
    : device_(device),
      stream_(stream),
      options_(std::move(options)),
      library_(std::move(library)),
      plans_(options_.cache_directory, device.name(), library_.version()) {}

absl::Status CudaMatmul::Start() {
  ASSIGN_OR_RETURN(workspace_,
                   device_.allocator().Allocate(options_.workspace_bytes));
  ASSIGN_OR_RETURN(begin_, CudaEvent::Create(CudaEvent::Timing::kOn));
  ASSIGN_OR_RETURN(end_, CudaEvent::Create(CudaEvent::Timing::kOn));
  return library_.ToStatus(library_.functions().Create(&handle_),
                           "cublasLtCreate");
}

CudaMatmul::~CudaMatmul() {
  // Queued work uses the scratch; callers that wait for it get its error.
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
  planned_.clear();
  if (handle_ != nullptr) library_.functions().Destroy(handle_);
}

template <typename T>
void CudaMatmul::Multiply(const MatmulShape& shape, const T* a, const T* b,
                          const MatmulOutput<T>& output) {
  const auto [m, n, k] = shape.size;
  if (m == 0 || n == 0) return;
  const ProductKey key =
      KeyOf(shape, kDataType<T>, kDataType<T>, options_.use_tf32);
  // The step after the product reads and writes the elements of `aux`.
  T* const aux =
      output.pre != nullptr ? output.pre : const_cast<T*>(output.gelu_input);
  const auto apart = [&] {
    T* const product = output.pre != nullptr ? output.pre : output.c;
    Queue(key, {a, b, product, nullptr, nullptr, output.write == Write::kAdd});
    if (output.bias != nullptr)
      AddBias<T>(stream_, m, n, key.c_stride, output.bias, product);
    if (output.pre != nullptr)
      GeluForward<T>(stream_, m * n, output.pre, output.c);
    if (output.gelu_input != nullptr)
      GeluBackward<T>(stream_, m * n, output.gelu_input, output.c, output.c);
  };
  ProductKey fused = key;
  fused.epilogue = EpilogueOf(output);
  if (fused.epilogue == Epilogue::kNone) return apart();
  QueueFused(fused,
             {a, b, output.c, const_cast<T*>(output.bias), aux, /*add=*/false},
             apart);
}

template <typename T>
void CudaMatmul::MultiplyToFloat(const MatmulShape& shape, const T* a,
                                 const T* b, Write write, float* c) {
  if (shape.size.m == 0 || shape.size.n == 0) return;
  Queue(KeyOf(shape, kDataType<T>, CUDA_R_32F, options_.use_tf32),
        {a, b, c, nullptr, nullptr, write == Write::kAdd});
}

template <typename T>
void CudaMatmul::MultiplyWithSums(const MatmulShape& shape, const T* a,
                                  const T* b, float* a_sums, float* b_sums,
                                  float* c, absl::FunctionRef<void()> apart) {
  if (shape.size.m == 0 || shape.size.n == 0) return apart();
  ProductKey key = KeyOf(shape, kDataType<T>, CUDA_R_32F, options_.use_tf32);
  key.epilogue = a_sums != nullptr ? Epilogue::kSumsOfA : Epilogue::kSumsOfB;
  QueueFused(key,
             {a, b, c, a_sums != nullptr ? a_sums : b_sums, nullptr,
              /*add=*/false},
             apart);
}

void CudaMatmul::QueueFused(ProductKey key, const ProductOperands& operands,
                            absl::FunctionRef<void()> apart) {
  if (!options_.fuse || key.k == 0 || !TryQueue(key, operands)) return apart();
  key.alignment_bytes = AlignmentOf(operands);
  const auto found = planned_.find(key);
  if (found == planned_.end() || !found->second.is_fresh) return;
  stream_.Note(CompareWith(apart, key, operands, found->second));
}

absl::Status CudaMatmul::CompareWith(absl::FunctionRef<void()> apart,
                                     const ProductKey& key,
                                     const ProductOperands& operands,
                                     Planned& planned) {
  planned.is_fresh = false;
  const auto run_apart = [&] {
    apart();
    return stream_.status();
  };
  const auto run_fused = [&] {
    return planned.product->Run(*planned.algorithm, operands, workspace_.data(),
                                stream_.get());
  };
  ASSIGN_OR_RETURN(const float apart_ms, Milliseconds(run_apart));
  // Last, so that its results stay if it is the faster one.
  ASSIGN_OR_RETURN(const float fused_ms, Milliseconds(run_fused));
  if (fused_ms <= apart_ms) return absl::OkStatus();
  planned.algorithm.reset();
  plans_.Add(key.Name() + kApart, {});
  return run_apart();
}

void CudaMatmul::Queue(const ProductKey& key, const ProductOperands& operands) {
  if (key.k == 0) {  // which cuBLASLt does not know
    if (!operands.add) FillZero(key, operands.c);
    return;
  }
  if (TryQueue(key, operands)) return;
  stream_.Note(absl::UnimplementedError(
      absl::StrCat("cuBLASLt ", library_.version(), " on ", device_.name(),
                   " has no algorithm for the product ", key.Name())));
}

void CudaMatmul::FillZero(const ProductKey& key, void* c) {
  const int64_t elem_bytes = SizeOf(key.output);
  // A row of all, or each by itself.
  const int64_t rows = key.c_stride == key.n ? 1 : key.m;
  const int64_t row_elems = key.c_stride == key.n ? key.m * key.n : key.n;
  for (int64_t row = 0; row < rows; ++row) {
    stream_.FillZero(static_cast<char*>(c) + row * key.c_stride * elem_bytes,
                     row_elems * elem_bytes);
  }
}

bool CudaMatmul::TryQueue(const ProductKey& key,
                          const ProductOperands& operands) {
  // After an error on the stream there is no point in queueing more.
  if (!stream_.status().ok()) return true;
  ProductKey aligned = key;
  aligned.alignment_bytes = AlignmentOf(operands);
  absl::StatusOr<Planned*> plan = Plan(aligned, operands);
  if (!plan.ok()) {
    stream_.Note(plan.status());
    return true;
  }
  Planned& planned = **plan;
  if (!planned.algorithm.has_value()) return false;
  const absl::Status status = planned.product->Run(
      *planned.algorithm, operands, workspace_.data(), stream_.get());
  if (absl::IsUnimplemented(status)) planned.algorithm.reset();
  if (!planned.algorithm.has_value()) return false;
  stream_.Note(status);
  return true;
}

absl::StatusOr<CudaMatmul::Planned*> CudaMatmul::Plan(
    const ProductKey& key, const ProductOperands& operands) {
  if (const auto found = planned_.find(key); found != planned_.end())
    return &found->second;
  Planned planned;
  ASSIGN_OR_RETURN(planned.product,
                   CublasLtProduct::Create(library_, handle_, key));
  RETURN_IF_ERROR(Choose(key, operands, planned));
  return &planned_.emplace(key, std::move(planned)).first->second;
}

absl::Status CudaMatmul::Choose(const ProductKey& key,
                                const ProductOperands& operands,
                                Planned& planned) {
  const std::string name = key.Name();
  planned.is_measured = options_.measure;
  if (plans_.Find(name + kApart).has_value()) return absl::OkStatus();
  planned.algorithm = plans_.Find(name);
  if (planned.algorithm.has_value() &&
      planned.product->CanUse(*planned.algorithm, options_.workspace_bytes)) {
    return absl::OkStatus();
  }
  planned.algorithm.reset();
  if (options_.measure && TakeNear(key, planned)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const std::vector<MatmulAlgorithm> candidates,
      planned.product->Propose(options_.workspace_bytes,
                               options_.measure ? kCandidates : 1));
  if (candidates.empty()) return absl::OkStatus();
  planned.algorithm = candidates.front();
  planned.is_measured =
      options_.measure && !operands.add && !IsCapturing(stream_);
  if (!planned.is_measured) return absl::OkStatus();
  ASSIGN_OR_RETURN(planned.algorithm,
                   Fastest(operands, *planned.product, candidates));
  planned.is_fresh = planned.algorithm.has_value();
  if (planned.is_fresh) plans_.Add(name, *planned.algorithm);
  return absl::OkStatus();
}

bool CudaMatmul::TakeNear(const ProductKey& key, Planned& planned) const {
  for (const auto& [met, near] : planned_) {
    if (!near.is_measured || !AreNear(met, key)) continue;
    if (near.algorithm.has_value()) {
      planned.algorithm =
          planned.product->Fit(*near.algorithm, options_.workspace_bytes);
      if (planned.algorithm.has_value()) return true;
    } else if (key.epilogue != Epilogue::kNone) {
      return true;  // what is faster apart is so for both
    }
  }
  return false;
}

absl::StatusOr<std::optional<MatmulAlgorithm>> CudaMatmul::Fastest(
    const ProductOperands& operands, CublasLtProduct& product,
    const std::vector<MatmulAlgorithm>& candidates) {
  std::optional<MatmulAlgorithm> fastest;
  float least = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (const MatmulAlgorithm& candidate : candidates) {
      const absl::StatusOr<float> taken = Milliseconds([&] {
        return product.Run(candidate, operands, workspace_.data(),
                           stream_.get());
      });
      // One that was proposed may still be refused when it is run.
      if (absl::IsUnimplemented(taken.status())) continue;
      RETURN_IF_ERROR(taken.status());
      if (fastest.has_value() && *taken >= least) continue;
      least = *taken;
      fastest = candidate;
    }
  }
  return fastest;
}

absl::StatusOr<float> CudaMatmul::Milliseconds(
    absl::FunctionRef<absl::Status()> run) {
  // The first one also loads the kernel.
  RETURN_IF_ERROR(run());
  stream_.Record(*begin_);
  for (int i = 0; i < kTimedRuns; ++i) RETURN_IF_ERROR(run());
  stream_.Record(*end_);
  RETURN_IF_ERROR(stream_.Synchronize());
  float milliseconds = 0;
  RETURN_IF_ERROR(CudaStatus(
      cudaEventElapsedTime(&milliseconds, begin_->get(), end_->get()),
      "cudaEventElapsedTime"));
  return milliseconds;
}

#define RM_INSTANTIATE(T)                                                    \
  template void CudaMatmul::Multiply<T>(const MatmulShape&, const T*,        \
                                        const T*, const MatmulOutput<T>&);   \
  template void CudaMatmul::MultiplyToFloat<T>(const MatmulShape&, const T*, \
                                               const T*, Write, float*);     \
  template void CudaMatmul::MultiplyWithSums<T>(                             \
      const MatmulShape&, const T*, const T*, float*, float*, float*,        \
      absl::FunctionRef<void()>);
RM_INSTANTIATE(float)
RM_INSTANTIATE(__nv_bfloat16)
RM_INSTANTIATE(__half)
#undef RM_INSTANTIATE

}  // namespace ringmaster::cuda
