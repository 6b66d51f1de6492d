#include "worker/nn/testing/reference_gpt_ops.h"

#include <cmath>
#include <vector>

#include "worker/nn/dropout_mask.h"

namespace ringmaster::reference {
namespace {

// The factor that element i of the batch is multiplied by.
double DropoutFactor(const Dropout& dropout, int64_t i) {
  if (dropout.rate == 0) return 1;
  const int64_t sample = i / dropout.elems_per_sample;
  const auto index = static_cast<uint32_t>(i % dropout.elems_per_sample);
  return IsKept(DropoutMaskOf(dropout, sample), index) ? 1 / (1 - dropout.rate)
                                                       : 0;
}

// Writes or adds a gradient that was summed in double.
template <typename T>
void Store(Write write, const std::vector<double>& sums, T* gradient) {
  for (size_t i = 0; i < sums.size(); ++i) {
    const double before = write == Write::kAdd ? gradient[i] : 0;
    gradient[i] = static_cast<T>(before + sums[i]);
  }
}

}  // namespace

template <typename T>
void ResidualLayerNormForward(RowShape shape, const T* x, const T* delta,
                              const Dropout& dropout_of_delta, T* sum,
                              const T* gamma, const T* beta, double epsilon,
                              T* y, T* mean, T* rstd) {
  const double dim = static_cast<double>(shape.dim);
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t begin = row * shape.dim;
    const int64_t end = begin + shape.dim;
    if (delta != nullptr) {
      for (int64_t i = begin; i < end; ++i) {
        sum[i] = static_cast<T>(x[i] +
                                delta[i] * DropoutFactor(dropout_of_delta, i));
      }
    }
    const T* const values = delta == nullptr ? x : sum;
    double total = 0;
    for (int64_t i = begin; i < end; ++i) total += values[i];
    const double center = total / dim;
    double squares = 0;
    for (int64_t i = begin; i < end; ++i)
      squares += (values[i] - center) * (values[i] - center);
    const double scale = 1 / std::sqrt(squares / dim + epsilon);
    for (int64_t i = begin; i < end; ++i) {
      y[i] = static_cast<T>((values[i] - center) * scale * gamma[i - begin] +
                            beta[i - begin]);
    }
    mean[row] = static_cast<T>(center);
    rstd[row] = static_cast<T>(scale);
  }
}

template <typename T>
void LayerNormBackward(RowShape shape, Write write, const T* dy, const T* sum,
                       const T* gamma, const T* mean, const T* rstd, T* dsum,
                       T* dgamma, T* dbeta) {
  const double dim = static_cast<double>(shape.dim);
  std::vector<double> gamma_sums(static_cast<size_t>(shape.dim));
  std::vector<double> beta_sums(static_cast<size_t>(shape.dim));
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t begin = row * shape.dim;
    const auto normalized = [&](int64_t i) {
      return (static_cast<double>(sum[begin + i]) - mean[row]) * rstd[row];
    };
    const auto before = [&](int64_t i) {
      return static_cast<double>(dy[begin + i]) * gamma[i];
    };
    double gradient = 0;
    double product = 0;
    for (int64_t i = 0; i < shape.dim; ++i) {
      gradient += before(i) / dim;
      product += before(i) * normalized(i) / dim;
      gamma_sums[i] += dy[begin + i] * normalized(i);
      beta_sums[i] += dy[begin + i];
    }
    for (int64_t i = 0; i < shape.dim; ++i) {
      dsum[begin + i] += static_cast<T>(
          rstd[row] * (before(i) - gradient - normalized(i) * product));
    }
  }
  Store(write, gamma_sums, dgamma);
  Store(write, beta_sums, dbeta);
}

template <typename T>
void ApplyDropout(const Dropout& dropout, int64_t samples, const T* x, T* y) {
  for (int64_t i = 0; i < samples * dropout.elems_per_sample; ++i)
    y[i] = static_cast<T>(x[i] * DropoutFactor(dropout, i));
}

template <typename T>
void TokenEmbeddingForward(TokenEmbeddingShape shape, const int32_t* ids,
                           const T* tokens, const T* positions, T* y) {
  for (int64_t i = 0; i < shape.samples * shape.window; ++i) {
    const int64_t t = i % shape.window;
    for (int64_t j = 0; j < shape.dim; ++j) {
      y[i * shape.dim + j] =
          tokens[ids[i] * shape.dim + j] + positions[t * shape.dim + j];
    }
  }
}

template <typename T>
void TokenEmbeddingBackwardPositions(TokenEmbeddingShape shape, Write write,
                                     const T* dy, T* dpositions) {
  const int64_t per_sample = shape.window * shape.dim;
  std::vector<double> sums(static_cast<size_t>(per_sample));
  for (int64_t i = 0; i < shape.samples * per_sample; ++i)
    sums[i % per_sample] += dy[i];
  Store(write, sums, dpositions);
}

#define RM_INSTANTIATE(T)                                                      \
  template void ResidualLayerNormForward<T>(RowShape, const T*, const T*,      \
                                            const Dropout&, T*, const T*,      \
                                            const T*, double, T*, T*, T*);     \
  template void LayerNormBackward<T>(RowShape, Write, const T*, const T*,      \
                                     const T*, const T*, const T*, T*, T*,     \
                                     T*);                                      \
  template void ApplyDropout<T>(const Dropout&, int64_t, const T*, T*);        \
  template void TokenEmbeddingForward<T>(TokenEmbeddingShape, const int32_t*,  \
                                         const T*, const T*, T*);              \
  template void TokenEmbeddingBackwardPositions<T>(TokenEmbeddingShape, Write, \
                                                   const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster::reference
