// The operators of a residual network as their formulas say, in double: the
// oracle of operators on CPUs and GPUs.
//
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_TESTING_REFERENCE_RESNET_OPS_H_
#define RINGMASTER_WORKER_NN_TESTING_REFERENCE_RESNET_OPS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/nn/batch_norm.h"
#include "worker/nn/strided_conv.h"

namespace ringmaster::reference {

using Doubles = std::vector<double>;

template <typename T>
Doubles AsDoubles(const std::vector<T>& values) {
  return Doubles(values.begin(), values.end());
}

// Calls each(index of y, of x, of the weight) for every product.
template <typename Each>
void ForEachProduct(const StridedConvShape& s, const Each& each) {
  const int64_t half = s.kernel / 2;
  for (int64_t p = 0; p < s.batch * s.out_pixels(); ++p) {
    const int64_t sample = p / s.out_pixels();
    const int64_t row = p % s.out_pixels() / s.out_width() * s.stride - half;
    const int64_t column = p % s.out_width() * s.stride - half;
    for (int64_t k = 0; k < s.kernel * s.kernel; ++k) {
      const int64_t r = row + k / s.kernel;
      const int64_t c = column + k % s.kernel;
      if (r < 0 || r >= s.height || c < 0 || c >= s.width) continue;
      const int64_t x = ((sample * s.height + r) * s.width + c) * s.in;
      for (int64_t o = 0; o < s.out; ++o) {
        for (int64_t n = 0; n < s.in; ++n) {
          each(static_cast<size_t>(p * s.out + o), static_cast<size_t>(x + n),
               static_cast<size_t>((o * s.in + n) * s.kernel * s.kernel + k));
        }
      }
    }
  }
}

inline Doubles ConvForward(const StridedConvShape& s, const Doubles& x,
                           const Doubles& weight) {
  Doubles y(static_cast<size_t>(s.batch * s.out_pixels() * s.out));
  ForEachProduct(s, [&](size_t to, size_t from, size_t by) {
    y[to] += x[from] * weight[by];
  });
  return y;
}

inline Doubles ConvBackwardInput(const StridedConvShape& s, const Doubles& dy,
                                 const Doubles& weight) {
  Doubles dx(static_cast<size_t>(s.batch * s.in_pixels() * s.in));
  ForEachProduct(s, [&](size_t from, size_t to, size_t by) {
    dx[to] += dy[from] * weight[by];
  });
  return dx;
}

inline Doubles ConvBackwardWeight(const StridedConvShape& s, const Doubles& dy,
                                  const Doubles& x) {
  Doubles dweight(static_cast<size_t>(s.weight_elems()));
  ForEachProduct(s, [&](size_t from, size_t by, size_t to) {
    dweight[to] += dy[from] * x[by];
  });
  return dweight;
}

struct Norm {
  Doubles y;
  Doubles mean;
  Doubles variance;
};

// `branch` may be empty.
inline Norm NormForward(const BatchNormShape& s, const Doubles& x,
                        const Doubles& gamma, const Doubles& beta,
                        const Doubles& branch, bool rectifies) {
  const auto statistics = static_cast<size_t>(s.groups() * s.channels);
  Norm out = {Doubles(x.size()), Doubles(statistics), Doubles(statistics)};
  const int64_t group_rows = s.group_samples() * s.pixels;
  const auto at = [&](size_t i) {
    const auto index = static_cast<int64_t>(i);
    return static_cast<size_t>(index / s.channels / group_rows * s.channels +
                               index % s.channels);
  };
  const auto rows = [&](size_t statistic) {
    return static_cast<double>(
        s.rows_of(static_cast<int64_t>(statistic) / s.channels));
  };
  for (size_t i = 0; i < x.size(); ++i) out.mean[at(i)] += x[i] / rows(at(i));
  for (size_t i = 0; i < x.size(); ++i) {
    const double distance = x[i] - out.mean[at(i)];
    out.variance[at(i)] += distance * distance / rows(at(i));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t channel = i % static_cast<size_t>(s.channels);
    const double y = (x[i] - out.mean[at(i)]) /
                         std::sqrt(out.variance[at(i)] + s.epsilon) *
                         gamma[channel] +
                     beta[channel] + (branch.empty() ? 0 : branch[i]);
    out.y[i] = rectifies ? std::max(0.0, y) : y;
  }
  return out;
}

struct NormGradients {
  Doubles dx;
  Doubles dgamma;
  Doubles dbeta;
  Doubles dbranch;
};

// `forward` is what NormForward made of the same operands.
inline NormGradients NormBackward(const BatchNormShape& s, const Norm& forward,
                                  const Doubles& dy, const Doubles& x,
                                  const Doubles& gamma, bool rectifies) {
  const auto channels = static_cast<size_t>(s.channels);
  NormGradients out = {Doubles(x.size()), Doubles(channels), Doubles(channels),
                       dy};
  for (size_t i = 0; rectifies && i < dy.size(); ++i)
    if (forward.y[i] <= 0) out.dbranch[i] = 0;
  for (int64_t group = 0; group < s.groups(); ++group) {
    const auto first = static_cast<size_t>(s.first_row_of(group)) * channels;
    const auto rows = static_cast<size_t>(s.rows_of(group));
    for (size_t channel = 0; channel < channels; ++channel) {
      const size_t at = static_cast<size_t>(group) * channels + channel;
      const double rstd = 1 / std::sqrt(forward.variance[at] + s.epsilon);
      double sum = 0;
      double product = 0;
      for (size_t row = 0; row < rows; ++row) {
        const size_t i = first + row * channels + channel;
        sum += out.dbranch[i];
        product += out.dbranch[i] * (x[i] - forward.mean[at]) * rstd;
      }
      out.dgamma[channel] += product;
      out.dbeta[channel] += sum;
      for (size_t row = 0; row < rows; ++row) {
        const size_t i = first + row * channels + channel;
        const double normalized = (x[i] - forward.mean[at]) * rstd;
        out.dx[i] = gamma[channel] * rstd *
                    (out.dbranch[i] -
                     (sum + normalized * product) / static_cast<double>(rows));
      }
    }
  }
  return out;
}

}  // namespace ringmaster::reference

#endif  // RINGMASTER_WORKER_NN_TESTING_REFERENCE_RESNET_OPS_H_
