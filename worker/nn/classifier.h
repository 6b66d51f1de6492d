// The last operator of a classifier: a linear layer, softmax and cross entropy
// in one.
//
// In chunks of rows: a chunk's logits are computed, turned into their gradients
// in place, used for the gradients of x, weight and bias, and forgotten. So
// logits and probabilities of a whole batch, which for a language model are
// larger than all else, never exist. Each row of logits is swept twice: once
// for its largest logit and sum together (Milakov & Gimelshein, "Online
// normalizer calculation for softmax", 2018), once for its gradients.
//
// Shapes: x, dx [rows,dim]; weight, dweight [classes,dim]; bias, dbias
// [classes], or null for none; targets [rows] in [0, classes); logits_scratch
// [ClassifierChunkRows,classes], which a caller may use for other things in
// between. Outputs must not overlap inputs. T is float or double.
// The loss is the sum over rows of -ln(softmax(logits)[target]), in nats, each
// from float or double logits, added in double in the order of rows. A logit
// that is NaN or +infinity makes it not finite.
// Thread-safety: as compute.h says. Results do not depend on the pool.
#ifndef RINGMASTER_WORKER_NN_CLASSIFIER_H_
#define RINGMASTER_WORKER_NN_CLASSIFIER_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct HeadShape {
  int64_t rows;
  int64_t dim;
  int64_t classes;
};

struct ClassifierResult {
  double loss_sum = 0;
  // Rows whose target has the largest logit, and is the first of those that
  // have.
  int64_t correct = 0;
};

// Rows of the largest chunk: at most shape.rows, and enough for efficient
// products. More rows never have smaller chunks, so scratch for the largest
// batch is enough for all.
int64_t ClassifierChunkRows(HeadShape shape);

// Returns the loss; dx =, dweight and dbias = or +=, the gradients of `scale`
// times the loss. dbias is null iff bias is.
template <typename T>
double ClassifierTrain(const Compute& compute, HeadShape shape, double scale,
                       Write write, const T* x, const T* weight, const T* bias,
                       const int32_t* targets, T* logits_scratch, T* dx,
                       T* dweight, T* dbias);

template <typename T>
ClassifierResult ClassifierPredict(const Compute& compute, HeadShape shape,
                                   const T* x, const T* weight, const T* bias,
                                   const int32_t* targets, T* logits_scratch);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CLASSIFIER_H_
