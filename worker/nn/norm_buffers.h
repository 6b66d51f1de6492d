// NormBuffers are a layer norm's input and output, and what its backward pass
// needs, in the buffers of a model.
#ifndef RINGMASTER_WORKER_NN_NORM_BUFFERS_H_
#define RINGMASTER_WORKER_NN_NORM_BUFFERS_H_

#include "worker/nn/buffer_cutter.h"
#include "worker/nn/layer_norm.h"

namespace ringmaster {

// T is the type of activations, Sum that of statistics.
template <typename T, typename Sum>
struct NormBuffers {
  T* sum = nullptr;     // [rows,dim]
  T* y = nullptr;       // [rows,dim]
  Sum* mean = nullptr;  // [rows]
  Sum* rstd = nullptr;  // [rows]
};

template <typename T, typename Sum>
NormBuffers<T, Sum> TakeNormBuffers(RowShape shape, BufferCutter& cutter) {
  NormBuffers<T, Sum> norm;
  norm.sum = cutter.Take<T>(shape.rows * shape.dim);
  norm.y = cutter.Take<T>(shape.rows * shape.dim);
  norm.mean = cutter.Take<Sum>(shape.rows);
  norm.rstd = cutter.Take<Sum>(shape.rows);
  return norm;
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_NORM_BUFFERS_H_
