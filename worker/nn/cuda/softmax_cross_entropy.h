// Softmax and cross entropy on a chunk of logits, in place: what the classifier
// of worker/nn/classifier.h does between its products, on a GPU.
//
// Each row is swept twice, once for its largest logit and sum together (Milakov
// & Gimelshein, "Online normalizer calculation for softmax", 2018), once for
// its gradients; it is read from memory once, if it fits half of a
// multiprocessor's shared memory. Predicting takes one sweep.
//
// Shapes: logits [rows,row_stride], of which the first `classes` of each row
// count (row_stride >= classes >= 1); targets [rows] in [0, classes); all in
// device memory. T is float, __nv_bfloat16 or __half. The loss is the sum over
// rows of -ln(softmax(logits)[target]), in nats.
// Guarantees: a row's sums are in float, the loss is added up in double, all in
// an order that depends on the shape alone. A logit that is NaN or +infinity
// makes the loss not finite. Fast where 16 divides the pointer and a row's
// bytes.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_SOFTMAX_CROSS_ENTROPY_H_
#define RINGMASTER_WORKER_NN_CUDA_SOFTMAX_CROSS_ENTROPY_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/class_outcome.h"

namespace ringmaster::cuda {

// As LossTerms of worker/nn/classifier.h. In device memory, since they may change
// between launches of a graph.
struct DeviceLossTerms {
  float scale = 1;
  float smoothing = 0;
};

// Doubles of scratch that a chunk of `rows` rows needs.
int64_t SoftmaxCrossEntropyScratchElems(int64_t rows);

// logits = the gradients of terms->scale times the loss, with labels smoothed by
// terms->smoothing, and 0 behind the classes; *loss_sum += the loss.
template <typename T>
void SoftmaxCrossEntropyTrain(CudaStream& stream, int64_t rows, int64_t classes,
                              int64_t row_stride, const DeviceLossTerms* terms,
                              const int32_t* targets, T* logits,
                              double* scratch, double* loss_sum);

// *loss_sum += the loss; *correct += the rows whose target has the largest
// logit, and is the first of those that have; outcomes [rows], if not null, =
// each row's.
template <typename T>
void SoftmaxCrossEntropyPredict(CudaStream& stream, int64_t rows,
                                int64_t classes, int64_t row_stride,
                                const int32_t* targets, const T* logits,
                                double* scratch, double* loss_sum,
                                int64_t* correct,
                                ClassOutcome* outcomes = nullptr);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_SOFTMAX_CROSS_ENTROPY_H_
