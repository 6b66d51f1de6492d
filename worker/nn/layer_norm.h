// Layer normalization (Ba, Kiros, Hinton, "Layer Normalization", 2016) of the
// sum of a residual stream and a branch, which is how transformers use it:
//   sum = x + drop(delta)
//   y = (sum - mean) * rstd * gamma + beta,  rstd = 1 / sqrt(variance + epsilon)
// in one visit to a row, while it is in the cache.
//
// Shapes: x, delta, sum, y [rows,dim]; gamma, beta [dim]; mean, rstd [rows];
// gradients have the shape of what they belong to. Outputs must not overlap
// inputs. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_LAYER_NORM_H_
#define RINGMASTER_WORKER_NN_LAYER_NORM_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct RowShape {
  int64_t rows;
  int64_t dim;
};

// sum =, y =, mean =, rstd =. If `mean` and `beta` are null, rows are scaled but
// not centred: RMSNorm (Zhang & Sennrich, "Root Mean Square Layer
// Normalization", 2019). With no delta (null) the sum is x itself, and `sum` is
// not used. If the dropout has a rate, the rows of a sample are elems_per_sample
// elements, a multiple of dim.
template <typename T>
void ResidualLayerNormForward(const Compute& compute, RowShape shape,
                              const T* x, const T* delta,
                              const Dropout& dropout_of_delta, T* sum,
                              const T* gamma, const T* beta, double epsilon,
                              T* y, T* mean, T* rstd);

// Elements of scratch that LayerNormBackward needs for this many rows or fewer.
int64_t LayerNormScratchElems(const Compute& compute, RowShape shape);

// dsum +=, dgamma and dbeta = or +=; of RMSNorm, `mean` and `dbeta` are null.
// `sum`, `mean` and `rstd` are forward's; the gradient of x is dsum, and that of
// delta is dsum with forward's dropout. Unless it is null, dsum_total [dim] = or
// += the sum of dsum's rows: where there is no dropout, the gradient of the bias
// of what was added.
template <typename T>
void LayerNormBackward(const Compute& compute, RowShape shape, Write write,
                       const T* dy, const T* sum, const T* gamma, const T* mean,
                       const T* rstd, T* scratch, T* dsum, T* dgamma, T* dbeta,
                       T* dsum_total = nullptr);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_LAYER_NORM_H_
