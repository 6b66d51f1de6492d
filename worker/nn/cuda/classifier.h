// The last operator of a classifier on a GPU: a linear layer, softmax and cross
// entropy in one, as worker/nn/classifier.h has it.
//
// In chunks of rows, whose logits are computed, turned into their gradients in
// place, used and forgotten. Rows of logits are padded to 16 bytes, without
// which tensor cores cannot write them (GPT-2 has 50257 classes).
//
// Shapes, all in device memory: x, dx [rows,dim]; weight, dweight
// [classes,dim]; bias, dbias [classes], or null for none; targets [rows] in
// [0, classes). T is float, __nv_bfloat16 or __half; gradients of parameters
// are float. Outputs must not overlap inputs.
// The loss is the sum over rows of -ln(softmax(logits)[target]), in nats, from
// logits of T. A logit that is NaN or +infinity makes it not finite.
// Guarantees: the same result, to the bit, for each call with the same operands
// on one CudaCompute. Nothing waits for the device.
// Thread-safety: as CudaCompute; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_CLASSIFIER_H_
#define RINGMASTER_WORKER_NN_CUDA_CLASSIFIER_H_

#include <cstdint>

#include "worker/nn/classifier.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/cuda/softmax_cross_entropy.h"

namespace ringmaster::cuda {

// The memory that a classifier computes in; a caller may use it for other
// things in between.
template <typename T>
struct ClassifierScratch {
  int64_t chunk_rows;  // rows of the largest chunk
  T* logits;           // [ClassifierLogitElems]
  double* sums;        // [ClassifierSumElems]
};

// Rows of a chunk for efficient products: at most shape.rows. (Each chunk reads
// and writes all of dweight, which more rows make up for.) More rows never have
// smaller chunks, so scratch for the largest batch is enough for all.
int64_t LogitChunkRows(HeadShape shape);
int64_t ClassifierLogitElems(HeadShape shape, int64_t chunk_rows);
int64_t ClassifierSumElems(int64_t chunk_rows);

// *loss_sum += the loss; dx =, dweight and dbias = or +=, the gradients of
// terms->scale (in device memory) times the loss. dbias is null iff bias is.
template <typename T>
void ClassifierTrain(const CudaCompute& compute, HeadShape shape,
                     const DeviceLossTerms* terms, Write write, const T* x,
                     const T* weight, const T* bias, const int32_t* targets,
                     const ClassifierScratch<T>& scratch, T* dx, float* dweight,
                     float* dbias, double* loss_sum);

// *loss_sum += the loss; *correct += the rows whose target has the largest
// logit, and is the first of those that have; outcomes [rows], if not null, =
// each row's.
template <typename T>
void ClassifierPredict(const CudaCompute& compute, HeadShape shape, const T* x,
                       const T* weight, const T* bias, const int32_t* targets,
                       const ClassifierScratch<T>& scratch, double* loss_sum,
                       int64_t* correct, ClassOutcome* outcomes = nullptr);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CLASSIFIER_H_
