// Batch normalization (Ioffe and Szegedy, 2015) with what follows it in a
// residual network: a branch that is added, and the rectifier.
//
//   y = max(0, gamma * (x - mean) / sqrt(variance + epsilon) + beta + branch)
//
// Mean and variance are a channel's over a group of samples and all their
// pixels; `group` consecutive samples make one, or all of the batch if it is 0,
// and the last group may be smaller. Variances divide by the number of values,
// and those of the running statistics by one less, as in PyTorch.
//
// Shapes: x, y, branch, dy, dx [batch,pixels,channels]; gamma, beta, dgamma,
// dbeta, running statistics [channels]; mean, variance [groups(),channels];
// scratch [BatchNormScratchElems]. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_BATCH_NORM_H_
#define RINGMASTER_WORKER_NN_BATCH_NORM_H_

#include <algorithm>
#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct LossTerms;  // of classifier.h

struct BatchNormShape {
  int64_t batch;
  int64_t pixels;
  int64_t channels;
  int64_t group = 0;
  double epsilon = 1e-5;

  // Samples of every group but the last.
  [[nodiscard]] int64_t group_samples() const {
    return std::max<int64_t>(1, group == 0 ? batch : group);
  }
  [[nodiscard]] int64_t groups() const {
    return (batch + group_samples() - 1) / group_samples();
  }
  // Rows of `channels` in group `index`.
  [[nodiscard]] int64_t rows_of(int64_t index) const {
    return std::min(group_samples(), batch - index * group_samples()) * pixels;
  }
  [[nodiscard]] int64_t first_row_of(int64_t index) const {
    return index * group_samples() * pixels;
  }
};

// The operators that follow a norm.
template <typename T>
struct BatchNormNext {
  const T* branch = nullptr;  // added; may be null
  bool rectifies = true;
};

// For this batch or a smaller one.
int64_t BatchNormScratchElems(const Compute& compute,
                              const BatchNormShape& shape);

// y =, mean =, variance =
template <typename T>
void BatchNormForward(const Compute& compute, const BatchNormShape& shape,
                      const T* x, const T* gamma, const T* beta,
                      const BatchNormNext<T>& next, T* scratch, T* y, T* mean,
                      T* variance);

// y =, by running statistics; a variance below 0 counts as 0.
template <typename T>
void BatchNormPredict(const Compute& compute, const BatchNormShape& shape,
                      const T* x, const T* gamma, const T* beta,
                      const T* running_mean, const T* running_variance,
                      const BatchNormNext<T>& next, T* scratch, T* y);

// The way from the groups' statistics to the running ones, as if these were
// parameters with a gradient: = or += the sum over the groups of
// terms.scale * samples * (running - group's), which is 0 for an empty batch.
// The scale is a sample's: where a sample has several targets, the caller
// multiplies the pass's, which is a target's, by their number.
template <typename T>
void BatchNormTrack(const Compute& compute, const BatchNormShape& shape,
                    const LossTerms& terms, Write write, const T* mean,
                    const T* variance, const T* running_mean,
                    const T* running_variance, T* dmean, T* dvariance);

// dx =; dgamma and dbeta = or +=. If the norm is rectified, y is what forward
// left, and else null. dbranch =, the gradient of the sum of norm and branch,
// if it is not null; it may be dy, and dx may be dy where dbranch is not.
template <typename T>
void BatchNormBackward(const Compute& compute, const BatchNormShape& shape,
                       Write write, const T* dy, const T* y, const T* x,
                       const T* gamma, const T* mean, const T* variance,
                       T* scratch, T* dx, T* dgamma, T* dbeta, T* dbranch);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BATCH_NORM_H_
