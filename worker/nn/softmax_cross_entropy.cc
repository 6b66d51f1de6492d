#include "worker/nn/softmax_cross_entropy.h"

#include <cmath>

#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/fast_exp.h"

namespace ringmaster {
namespace {

// Independent partial results, which let the compiler vectorize a reduction
// without reordering it.
constexpr int kLanes = 16;

template <typename T>
RM_KERNEL T MaxOf(const T* x, int64_t count) {
  T lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = x[0];
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane)
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  }
  for (; i < count; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  for (int lane = 1; lane < kLanes; ++lane)
    lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
  return lanes[0];
}

template <typename T>
RM_KERNEL T SumOf(const T* x, int64_t count) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane];
  }
  for (; i < count; ++i) lanes[0] += x[i];
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// Turns a row of logits into probabilities; returns the row's cross entropy.
template <typename T>
RM_KERNEL double RowKernel(int64_t classes, int32_t target, T* row) {
  const T max = MaxOf(row, classes);
  const T target_logit = row[target] - max;
  for (int64_t i = 0; i < classes; ++i) row[i] = FastExp(row[i] - max);
  const T sum = SumOf(row, classes);
  const T inverse = T{1} / sum;
  for (int64_t i = 0; i < classes; ++i) row[i] *= inverse;
  return std::log(static_cast<double>(sum)) - static_cast<double>(target_logit);
}

template <typename T>
RM_KERNEL double ForwardKernel(int64_t batch, int64_t classes,
                               const int32_t* targets, T* logits) {
  double loss_sum = 0;
  for (int64_t i = 0; i < batch; ++i)
    loss_sum += RowKernel(classes, targets[i], logits + i * classes);
  return loss_sum;
}

template <typename T>
RM_KERNEL void ScaleKernel(int64_t count, T scale, T* x) {
  for (int64_t i = 0; i < count; ++i) x[i] *= scale;
}

}  // namespace

template <typename T>
double SoftmaxCrossEntropyForward(ClassifierShape shape, const int32_t* targets,
                                  T* logits) {
  return CallOnCpu<ForwardKernel<T>>(shape.batch, shape.classes, targets,
                                     logits);
}

template <typename T>
void SoftmaxCrossEntropyBackward(ClassifierShape shape, const int32_t* targets,
                                 double scale, T* probabilities) {
  for (int64_t i = 0; i < shape.batch; ++i)
    probabilities[i * shape.classes + targets[i]] -= T{1};
  CallOnCpu<ScaleKernel<T>>(shape.batch * shape.classes, static_cast<T>(scale),
                            probabilities);
}

#define RM_INSTANTIATE(T)                                            \
  template double SoftmaxCrossEntropyForward<T>(ClassifierShape,     \
                                                const int32_t*, T*); \
  template void SoftmaxCrossEntropyBackward<T>(ClassifierShape,      \
                                               const int32_t*, double, T*);
RM_INSTANTIATE(float)
RM_INSTANTIATE(double)
#undef RM_INSTANTIATE

}  // namespace ringmaster
