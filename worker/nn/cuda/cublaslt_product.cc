#include "worker/nn/cuda/cublaslt_product.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster::cuda {
namespace {

// The requirements on GELU's argument in memory, as cublasLt.h says.
constexpr int64_t kAuxStrideUnit = 8;
constexpr int kAuxAlignmentBytes = 16;

const char* NameOf(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return "f32";
    case CUDA_R_16BF:
      return "bf16";
    case CUDA_R_16F:
      return "f16";
    default:
      return "?";
  }
}

const char* NameOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return "none";
    case Epilogue::kBias:
      return "bias";
    case Epilogue::kGelu:
      return "gelu";
    case Epilogue::kGeluBias:
      return "bias_gelu";
    case Epilogue::kGeluBackward:
      return "dgelu";
    case Epilogue::kSumsOfA:
      return "sums_a";
    case Epilogue::kSumsOfB:
      return "sums_b";
  }
  return "?";
}

cublasLtEpilogue_t EpilogueOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kGeluBackward:
      return CUBLASLT_EPILOGUE_DGELU;
    // Our first operand is its second.
    case Epilogue::kSumsOfA:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::kSumsOfB:
      return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool HasAux(Epilogue epilogue) {
  return epilogue == Epilogue::kGelu || epilogue == Epilogue::kGeluBias ||
         epilogue == Epilogue::kGeluBackward;
}

bool HasBias(Epilogue epilogue) {
  return epilogue == Epilogue::kBias || epilogue == Epilogue::kGeluBias ||
         epilogue == Epilogue::kSumsOfA || epilogue == Epilogue::kSumsOfB;
}

cublasOperation_t OperationOf(Transpose transpose) {
  return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cublasLtMatmulAlgo_t InLibrary(const MatmulAlgorithm& algorithm) {
  cublasLtMatmulAlgo_t in_library = {};
  static_assert(sizeof(in_library.data) == sizeof(algorithm.words));
  std::copy(algorithm.words.begin(), algorithm.words.end(), in_library.data);
  return in_library;
}

// The preference for heuristics, for as long as this object lives.
class Preference {
 public:
  explicit Preference(const CublasLtLibrary& library) : library_(library) {}
  Preference(const Preference&) = delete;
  ~Preference() {
    if (preference_ != nullptr)
      library_.functions().MatmulPreferenceDestroy(preference_);
  }
  absl::Status Describe(uint64_t workspace_bytes, uint32_t alignment_bytes) {
    RETURN_IF_ERROR(library_.ToStatus(
        library_.functions().MatmulPreferenceCreate(&preference_),
        "cublasLtMatmulPreferenceCreate"));
    RETURN_IF_ERROR(
        Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes));
    for (const auto operand : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      RETURN_IF_ERROR(Set(operand, alignment_bytes));
    }
    return absl::OkStatus();
  }
  [[nodiscard]] cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <typename Value>
  absl::Status Set(cublasLtMatmulPreferenceAttributes_t attribute,
                   Value value) {
    return library_.ToStatus(library_.functions().MatmulPreferenceSetAttribute(
                                 preference_, attribute, &value, sizeof(value)),
                             "cublasLtMatmulPreferenceSetAttribute");
  }

  const CublasLtLibrary& library_;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

std::string ProductKey::Name() const {
  const auto letter = [](Transpose t) {
    return t == Transpose::kYes ? "t" : "n";
  };
  return absl::StrCat(letter(transpose_a), letter(transpose_b), " ", m, "x", n,
                      "x", k, " strides ", a_stride, " ", b_stride, " ",
                      c_stride, " ", use_tf32 ? "tf32" : NameOf(input), ">",
                      NameOf(output), " ", NameOf(epilogue), " align",
                      alignment_bytes);
}

absl::StatusOr<std::unique_ptr<CublasLtProduct>> CublasLtProduct::Create(
    const CublasLtLibrary& library, cublasLtHandle_t handle,
    const ProductKey& key) {
  std::unique_ptr<CublasLtProduct> product(
      new CublasLtProduct(library, handle, key));
  RETURN_IF_ERROR(product->Describe());
  return product;
}

CublasLtProduct::~CublasLtProduct() {
  const CublasLtFunctions& functions = library_.functions();
  for (cublasLtMatrixLayout_t layout : {first_, second_, result_})
    if (layout != nullptr) functions.MatrixLayoutDestroy(layout);
  if (operation_ != nullptr) functions.MatmulDescDestroy(operation_);
}

template <typename Value>
absl::Status CublasLtProduct::Set(cublasLtMatmulDescAttributes_t attribute,
                                  Value value) {
  return library_.ToStatus(library_.functions().MatmulDescSetAttribute(
                               operation_, attribute, &value, sizeof(value)),
                           "cublasLtMatmulDescSetAttribute");
}

absl::Status CublasLtProduct::Describe() {
  RETURN_IF_ERROR(library_.ToStatus(
      library_.functions().MatmulDescCreate(
          &operation_,
          key_.use_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
          CUDA_R_32F),
      "cublasLtMatmulDescCreate"));
  RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_TRANSA,
                      static_cast<int32_t>(OperationOf(key_.transpose_b))));
  RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_TRANSB,
                      static_cast<int32_t>(OperationOf(key_.transpose_a))));
  RETURN_IF_ERROR(SetEpilogue());
  // A row-major [rows,columns] is a column-major [columns,rows].
  const auto create = [&](cudaDataType_t type, int64_t rows, int64_t columns,
                          int64_t stride, cublasLtMatrixLayout_t* layout) {
    return library_.ToStatus(library_.functions().MatrixLayoutCreate(
                                 layout, type, static_cast<uint64_t>(columns),
                                 static_cast<uint64_t>(rows), stride),
                             "cublasLtMatrixLayoutCreate");
  };
  const bool is_a_turned = key_.transpose_a == Transpose::kYes;
  const bool is_b_turned = key_.transpose_b == Transpose::kYes;
  RETURN_IF_ERROR(create(key_.input, is_b_turned ? key_.n : key_.k,
                         is_b_turned ? key_.k : key_.n, key_.b_stride,
                         &first_));
  RETURN_IF_ERROR(create(key_.input, is_a_turned ? key_.k : key_.m,
                         is_a_turned ? key_.m : key_.k, key_.a_stride,
                         &second_));
  return create(key_.output, key_.m, key_.n, key_.c_stride, &result_);
}

absl::Status CublasLtProduct::SetEpilogue() {
  RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_EPILOGUE,
                      static_cast<uint32_t>(EpilogueOf(key_.epilogue))));
  if (!HasAux(key_.epilogue)) return absl::OkStatus();
  return Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key_.c_stride);
}

absl::Status CublasLtProduct::SetAddresses(const void* bias, const void* aux) {
  if (HasBias(key_.epilogue))
    RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  if (HasAux(key_.epilogue))
    RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux));
  return absl::OkStatus();
}

absl::Status CublasLtProduct::SetAlignment() {
  const void* const aligned = reinterpret_cast<const void*>(
      static_cast<uintptr_t>(key_.alignment_bytes));
  return SetAddresses(aligned, aligned);
}

absl::StatusOr<std::vector<MatmulAlgorithm>> CublasLtProduct::Propose(
    int64_t workspace_bytes, int most) {
  std::vector<MatmulAlgorithm> algorithms;
  // Not all versions say so themselves before the product runs.
  if (HasAux(key_.epilogue) && (key_.c_stride % kAuxStrideUnit != 0 ||
                                key_.alignment_bytes < kAuxAlignmentBytes)) {
    return algorithms;
  }
  RETURN_IF_ERROR(SetAlignment());
  Preference preference(library_);
  RETURN_IF_ERROR(
      preference.Describe(static_cast<uint64_t>(workspace_bytes),
                          static_cast<uint32_t>(key_.alignment_bytes)));
  std::vector<cublasLtMatmulHeuristicResult_t> results(
      static_cast<size_t>(most));
  int found = 0;
  const cublasStatus_t status = library_.functions().MatmulAlgoGetHeuristic(
      handle_, operation_, first_, second_, result_, result_, preference.get(),
      most, results.data(), &found);
  // Both are how it says that there is none.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
      status == CUBLAS_STATUS_INVALID_VALUE) {
    return algorithms;
  }
  RETURN_IF_ERROR(library_.ToStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[i];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    MatmulAlgorithm algorithm;
    std::copy(std::begin(result.algo.data), std::end(result.algo.data),
              algorithm.words.begin());
    algorithm.workspace_bytes = static_cast<int64_t>(result.workspaceSize);
    if (algorithm.workspace_bytes <= workspace_bytes)
      algorithms.push_back(algorithm);
  }
  return algorithms;
}

bool CublasLtProduct::CanUse(const MatmulAlgorithm& algorithm,
                             int64_t workspace_bytes) {
  const std::optional<MatmulAlgorithm> fitted = Fit(algorithm, workspace_bytes);
  return fitted.has_value() &&
         fitted->workspace_bytes <= algorithm.workspace_bytes &&
         algorithm.workspace_bytes <= workspace_bytes;
}

std::optional<MatmulAlgorithm> CublasLtProduct::Fit(
    const MatmulAlgorithm& algorithm, int64_t workspace_bytes) {
  if (!SetAlignment().ok()) return std::nullopt;
  const cublasLtMatmulAlgo_t in_library = InLibrary(algorithm);
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status = library_.functions().MatmulAlgoCheck(
      handle_, operation_, first_, second_, result_, result_, &in_library,
      &result);
  MatmulAlgorithm fitted = algorithm;
  fitted.workspace_bytes = static_cast<int64_t>(result.workspaceSize);
  if (status != CUBLAS_STATUS_SUCCESS ||
      result.state != CUBLAS_STATUS_SUCCESS ||
      fitted.workspace_bytes > workspace_bytes) {
    return std::nullopt;
  }
  return fitted;
}

absl::Status CublasLtProduct::Run(const MatmulAlgorithm& algorithm,
                                  const ProductOperands& operands,
                                  void* workspace, cudaStream_t stream) {
  RETURN_IF_ERROR(SetAddresses(operands.bias, operands.aux));
  const float alpha = 1;
  const float beta = operands.add ? 1 : 0;
  const cublasLtMatmulAlgo_t in_library = InLibrary(algorithm);
  return library_.ToStatus(
      library_.functions().Matmul(
          handle_, operation_, &alpha, operands.b, first_, operands.a, second_,
          &beta, operands.c, result_, operands.c, result_, &in_library,
          workspace, static_cast<size_t>(algorithm.workspace_bytes), stream),
      absl::StrCat("cublasLtMatmul (", key_.Name(), ")"));
}

}  // namespace ringmaster::cuda
