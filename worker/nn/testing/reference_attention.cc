#include "worker/nn/testing/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/nn/dropout_mask.h"

namespace ringmaster::reference {
namespace {

// One head of one sample, in double.
class Head {
 public:
  template <typename T>
  Head(AttentionShape shape, const Dropout& dropout, int64_t sample,
       int64_t head, const T* qkv)
      : window_(shape.window),
        length_(shape.lengths == nullptr ? shape.window
                                         : shape.lengths[sample]),
        is_causal_(shape.is_causal),
        dim_(shape.head_dim) {
    for (int64_t w = 0; w < window_; ++w) {
      for (int64_t part = 0; part < 3; ++part) {
        const T* row = qkv + QkvIndex(shape, sample, w, part, head);
        std::copy_n(row, dim_, std::back_inserter(parts_[part]));
      }
    }
    const DropoutMask mask = DropoutMaskOf(dropout, sample);
    keep_.resize(static_cast<size_t>(window_ * window_));
    for (int64_t i = 0; i < window_ * window_; ++i) {
      const int64_t index = head * window_ * window_ + i;
      keep_[i] = IsKept(mask, static_cast<uint32_t>(index))
                     ? DropoutScale(dropout)
                     : 0;
    }
    FindProbabilities();
  }

  static int64_t QkvIndex(AttentionShape shape, int64_t sample, int64_t w,
                          int64_t part, int64_t head) {
    const int64_t row = sample * shape.window + w;
    const int64_t place = shape.is_apart
                              ? part * shape.samples * shape.window + row
                              : row * 3 + part;
    return (place * shape.heads + head) * shape.head_dim;
  }
  static int64_t OutIndex(AttentionShape shape, int64_t sample, int64_t w,
                          int64_t head) {
    return ((sample * shape.window + w) * shape.heads + head) * shape.head_dim;
  }

  // The number of keys that the query sees: none, if it is padding.
  int64_t Keys(int64_t q) const {
    if (q >= length_) return 0;
    return is_causal_ ? q + 1 : length_;
  }
  double Q(int64_t w, int64_t d) const { return parts_[0][w * dim_ + d]; }
  double K(int64_t w, int64_t d) const { return parts_[1][w * dim_ + d]; }
  double V(int64_t w, int64_t d) const { return parts_[2][w * dim_ + d]; }
  // Before dropout.
  double Probability(int64_t q, int64_t k) const {
    return probabilities_[q * window_ + k];
  }
  // The factor that dropout multiplies it with.
  double Keep(int64_t q, int64_t k) const { return keep_[q * window_ + k]; }
  double LogSumExp(int64_t q) const { return log_sum_exp_[q]; }
  double Scale() const { return 1 / std::sqrt(static_cast<double>(dim_)); }

 private:
  void FindProbabilities() {
    probabilities_.assign(static_cast<size_t>(window_ * window_), 0);
    for (int64_t q = 0; q < window_; ++q) {
      std::vector<double> scores;
      if (Keys(q) == 0) {
        log_sum_exp_.push_back(0);
        continue;
      }
      for (int64_t k = 0; k < Keys(q); ++k) {
        double sum = 0;
        for (int64_t d = 0; d < dim_; ++d) sum += Q(q, d) * K(k, d);
        scores.push_back(sum * Scale());
      }
      const double max = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double score : scores) sum += std::exp(score - max);
      log_sum_exp_.push_back(max + std::log(sum));
      for (int64_t k = 0; k < Keys(q); ++k)
        probabilities_[q * window_ + k] = std::exp(scores[k] - max) / sum;
    }
  }

  const int64_t window_;
  const int64_t length_;
  const bool is_causal_;
  const int64_t dim_;
  std::vector<double> parts_[3];
  std::vector<double> keep_;
  std::vector<double> probabilities_;
  std::vector<double> log_sum_exp_;
};

}  // namespace

template <typename T>
void AttentionForward(AttentionShape shape, const Dropout& dropout,
                      const T* qkv, T* out, T* log_sum_exp) {
  for (int64_t s = 0; s < shape.samples; ++s) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const Head head(shape, dropout, s, h, qkv);
      for (int64_t q = 0; q < shape.window; ++q) {
        log_sum_exp[(s * shape.heads + h) * shape.window + q] =
            static_cast<T>(head.LogSumExp(q));
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          double sum = 0;
          for (int64_t k = 0; k < head.Keys(q); ++k)
            sum += head.Probability(q, k) * head.Keep(q, k) * head.V(k, d);
          out[Head::OutIndex(shape, s, q, h) + d] = static_cast<T>(sum);
        }
      }
    }
  }
}

template <typename T>
void AttentionBackward(AttentionShape shape, const Dropout& dropout,
                       const T* dout, const T* qkv, T* dqkv) {
  const int64_t dim = shape.head_dim;
  for (int64_t s = 0; s < shape.samples; ++s) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const Head head(shape, dropout, s, h, qkv);
      std::vector<double> dq(static_cast<size_t>(shape.window * dim));
      std::vector<double> dk = dq;
      std::vector<double> dv = dq;
      for (int64_t q = 0; q < shape.window; ++q) {
        const T* dy = dout + Head::OutIndex(shape, s, q, h);
        std::vector<double> dp(static_cast<size_t>(head.Keys(q)));
        double mean = 0;
        for (int64_t k = 0; k < head.Keys(q); ++k) {
          for (int64_t d = 0; d < dim; ++d) {
            dp[k] += head.Keep(q, k) * dy[d] * head.V(k, d);
            dv[k * dim + d] += head.Probability(q, k) * head.Keep(q, k) * dy[d];
          }
          mean += head.Probability(q, k) * dp[k];
        }
        for (int64_t k = 0; k < head.Keys(q); ++k) {
          const double dscore =
              head.Probability(q, k) * (dp[k] - mean) * head.Scale();
          for (int64_t d = 0; d < dim; ++d) {
            dq[q * dim + d] += dscore * head.K(k, d);
            dk[k * dim + d] += dscore * head.Q(q, d);
          }
        }
      }
      for (int64_t w = 0; w < shape.window; ++w) {
        const std::vector<double>* gradients[] = {&dq, &dk, &dv};
        for (int64_t part = 0; part < 3; ++part) {
          T* row = dqkv + Head::QkvIndex(shape, s, w, part, h);
          for (int64_t d = 0; d < dim; ++d)
            row[d] = static_cast<T>((*gradients[part])[w * dim + d]);
        }
      }
    }
  }
}

#define RM_INSTANTIATE(T)                                                      \
  template void AttentionForward<T>(AttentionShape, const Dropout&, const T*,  \
                                    T*, T*);                                   \
  template void AttentionBackward<T>(AttentionShape, const Dropout&, const T*, \
                                     const T*, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster::reference
