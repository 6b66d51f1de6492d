#include "worker/nn/testing/reference_ops.h"

#include <cmath>
#include <numbers>

namespace ringmaster::reference {

template <typename T>
void Gemm(Transpose transpose_a, Transpose transpose_b, GemmShape shape,
          const T* a, const T* b, T* c) {
  const auto [m, n, k] = shape;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        const T x =
            transpose_a == Transpose::kYes ? a[l * m + i] : a[i * k + l];
        const T y =
            transpose_b == Transpose::kYes ? b[j * k + l] : b[l * n + j];
        sum += static_cast<double>(x) * static_cast<double>(y);
      }
      c[i * n + j] = static_cast<T>(sum);
    }
  }
}

namespace {

// The index of the weight from input i to output o.
int64_t WeightAt(const LinearShape& shape, int64_t o, int64_t i) {
  return shape.layout == WeightLayout::kOutIn ? o * shape.in + i
                                              : i * shape.out + o;
}

}  // namespace

template <typename T>
void LinearForward(LinearShape shape, const T* x, const T* weight,
                   const T* bias, T* y) {
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t o = 0; o < shape.out; ++o) {
      double sum = bias == nullptr ? 0 : bias[o];
      for (int64_t i = 0; i < shape.in; ++i) {
        sum += static_cast<double>(x[b * shape.in + i]) *
               weight[WeightAt(shape, o, i)];
      }
      y[b * shape.out + o] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void LinearGeluForward(LinearShape shape, const T* x, const T* weight,
                       const T* bias, T* pre, T* y) {
  LinearForward(shape, x, weight, bias, pre);
  GeluForward(shape.batch * shape.out, pre, y);
}

template <typename T>
void LinearBackwardInput(LinearShape shape, const T* dy, const T* weight,
                         T* dx) {
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t i = 0; i < shape.in; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < shape.out; ++o) {
        sum += static_cast<double>(dy[b * shape.out + o]) *
               weight[WeightAt(shape, o, i)];
      }
      dx[b * shape.in + i] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void LinearBackwardWeight(LinearShape shape, const T* dy, const T* x,
                          T* dweight) {
  for (int64_t o = 0; o < shape.out; ++o) {
    for (int64_t i = 0; i < shape.in; ++i) {
      double sum = 0;
      for (int64_t b = 0; b < shape.batch; ++b) {
        sum += static_cast<double>(dy[b * shape.out + o]) * x[b * shape.in + i];
      }
      dweight[WeightAt(shape, o, i)] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void LinearBackwardBias(LinearShape shape, const T* dy, T* dbias) {
  for (int64_t o = 0; o < shape.out; ++o) {
    double sum = 0;
    for (int64_t b = 0; b < shape.batch; ++b)
      sum += static_cast<double>(dy[b * shape.out + o]);
    dbias[o] = static_cast<T>(sum);
  }
}

template <typename T>
void EmbeddingForward(EmbeddingShape shape, const int32_t* ids, const T* table,
                      T* y) {
  for (int64_t i = 0; i < shape.count; ++i) {
    for (int64_t j = 0; j < shape.dim; ++j)
      y[i * shape.dim + j] = table[ids[i] * shape.dim + j];
  }
}

template <typename T>
void EmbeddingBackward(EmbeddingShape shape, const int32_t* ids, const T* dy,
                       T* dtable) {
  for (int64_t token = 0; token < shape.vocabulary; ++token) {
    for (int64_t j = 0; j < shape.dim; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < shape.count; ++i) {
        if (ids[i] == token) sum += static_cast<double>(dy[i * shape.dim + j]);
      }
      dtable[token * shape.dim + j] = static_cast<T>(sum);
    }
  }
}

namespace {

const double kRootTwoOverPi = std::sqrt(2 / std::numbers::pi);

}  // namespace

template <typename T>
void GeluForward(int64_t count, const T* x, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    const double v = x[i];
    y[i] = static_cast<T>(
        0.5 * v * (1 + std::tanh(kRootTwoOverPi * (v + 0.044715 * v * v * v))));
  }
}

template <typename T>
void GeluBackward(int64_t count, const T* x, const T* dy, T* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const double v = x[i];
    const double t = std::tanh(kRootTwoOverPi * (v + 0.044715 * v * v * v));
    const double slope = kRootTwoOverPi * (1 + 3 * 0.044715 * v * v);
    dx[i] =
        static_cast<T>(dy[i] * (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * slope));
  }
}

#define RM_INSTANTIATE(T)                                                      \
  template void Gemm<T>(Transpose, Transpose, GemmShape, const T*, const T*,   \
                        T*);                                                   \
  template void LinearGeluForward<T>(LinearShape, const T*, const T*,          \
                                     const T*, T*, T*);                        \
  template void LinearForward<T>(LinearShape, const T*, const T*, const T*,    \
                                 T*);                                          \
  template void LinearBackwardInput<T>(LinearShape, const T*, const T*, T*);   \
  template void LinearBackwardWeight<T>(LinearShape, const T*, const T*, T*);  \
  template void LinearBackwardBias<T>(LinearShape, const T*, T*);              \
  template void EmbeddingForward<T>(EmbeddingShape, const int32_t*, const T*,  \
                                    T*);                                       \
  template void EmbeddingBackward<T>(EmbeddingShape, const int32_t*, const T*, \
                                     T*);                                      \
  template void GeluForward<T>(int64_t, const T*, T*);                         \
  template void GeluBackward<T>(int64_t, const T*, const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster::reference
