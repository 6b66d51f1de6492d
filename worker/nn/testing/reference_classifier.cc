#include "worker/nn/testing/reference_classifier.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ringmaster::reference {
namespace {

template <typename T>
std::vector<double> LogitsOf(HeadShape shape, const T* x, const T* weight,
                             const T* bias) {
  std::vector<double> logits(static_cast<size_t>(shape.classes));
  for (int64_t c = 0; c < shape.classes; ++c) {
    double sum = bias == nullptr ? 0 : static_cast<double>(bias[c]);
    for (int64_t d = 0; d < shape.dim; ++d)
      sum += static_cast<double>(x[d]) * weight[c * shape.dim + d];
    logits[c] = sum;
  }
  return logits;
}

double LogSumExp(const std::vector<double>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

template <typename T>
std::vector<double> StartOf(Write write, int64_t count, const T* values) {
  std::vector<double> start(static_cast<size_t>(count), 0);
  if (write == Write::kAdd && values != nullptr)
    std::copy_n(values, count, start.begin());
  return start;
}

}  // namespace

template <typename T>
double ClassifierTrain(HeadShape shape, double scale, Write write, const T* x,
                       const T* weight, const T* bias, const int32_t* targets,
                       T* dx, T* dweight, T* dbias, double smoothing) {
  const auto [rows, dim, classes] = shape;
  std::vector<double> weight_sums = StartOf(write, classes * dim, dweight);
  std::vector<double> bias_sums = StartOf(write, classes, dbias);
  double loss_sum = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<double> logits =
        LogitsOf(shape, x + r * dim, weight, bias);
    const double log_sum_exp = LogSumExp(logits);
    std::vector<double> input_sums(static_cast<size_t>(dim));
    for (int64_t c = 0; c < classes; ++c) {
      const double wanted = (c == targets[r] ? 1 - smoothing : 0) +
                            smoothing / static_cast<double>(classes);
      loss_sum += wanted * (log_sum_exp - logits[c]);
      const double gradient =
          scale * (std::exp(logits[c] - log_sum_exp) - wanted);
      bias_sums[c] += gradient;
      for (int64_t d = 0; d < dim; ++d) {
        weight_sums[c * dim + d] += gradient * x[r * dim + d];
        input_sums[d] += gradient * weight[c * dim + d];
      }
    }
    std::copy(input_sums.begin(), input_sums.end(), dx + r * dim);
  }
  std::copy(weight_sums.begin(), weight_sums.end(), dweight);
  if (dbias != nullptr) std::copy(bias_sums.begin(), bias_sums.end(), dbias);
  return loss_sum;
}

template <typename T>
ClassifierResult ClassifierPredict(HeadShape shape, const T* x, const T* weight,
                                   const T* bias, const int32_t* targets) {
  ClassifierResult result;
  for (int64_t r = 0; r < shape.rows; ++r) {
    const std::vector<double> logits =
        LogitsOf(shape, x + r * shape.dim, weight, bias);
    result.loss_sum += LogSumExp(logits) - logits[targets[r]];
    const auto max = std::max_element(logits.begin(), logits.end());
    if (max - logits.begin() == targets[r]) ++result.correct;
    ClassOutcome outcome = {static_cast<int32_t>(max - logits.begin()), 0};
    for (int32_t c = 0; c < shape.classes; ++c) {
      const double ahead = logits[c] - logits[targets[r]];
      if (ahead > 0 || (ahead == 0 && c < targets[r])) ++outcome.rivals;
    }
    result.outcomes.push_back(outcome);
  }
  return result;
}

#define RM_INSTANTIATE(T)                                                    \
  template double ClassifierTrain<T>(HeadShape, double, Write, const T*,     \
                                     const T*, const T*, const int32_t*, T*, \
                                     T*, T*, double);                        \
  template ClassifierResult ClassifierPredict<T>(                            \
      HeadShape, const T*, const T*, const T*, const int32_t*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster::reference
