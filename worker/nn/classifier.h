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
// [classes], or null for none; targets [rows] in [0, classes). Outputs must not
// overlap inputs. T is float or double.
// The loss is the sum over rows of -ln(softmax(logits)[target]), in nats, each
// from float or double logits, added in double in the order of rows. A logit
// that is NaN or +infinity makes it not finite. With label smoothing (Szegedy et
// al., "Rethinking the Inception Architecture for Computer Vision", 2016) a row's
// is, with the share s, (1 - s) times that plus s times the mean over all classes
// of -ln(softmax(logits)[class]), as PyTorch's CrossEntropyLoss has it; a logit of
// -infinity then makes it infinite.
// Thread-safety: as compute.h says. Results do not depend on the pool.
#ifndef RINGMASTER_WORKER_NN_CLASSIFIER_H_
#define RINGMASTER_WORKER_NN_CLASSIFIER_H_

#include <algorithm>
#include <cstdint>

#include "worker/nn/buffer_cutter.h"
#include "worker/nn/class_outcome.h"
#include "worker/nn/compute.h"

namespace ringmaster {

struct HeadShape {
  int64_t rows;
  int64_t dim;
  int64_t classes;
};

// The scale and the targets of the training loss.
struct LossTerms {
  double scale = 1;      // of the gradients
  double smoothing = 0;  // share of a target that is spread over all classes
};

// Rows of the largest chunk: at most shape.rows, and enough for efficient
// products. More rows never have smaller chunks, so scratch for the largest
// batch is enough for all.
int64_t ClassifierChunkRows(HeadShape shape);

// The memory that a classifier computes in; a caller may use it for other
// things in between.
template <typename T>
struct ClassifierScratch {
  T* logits = nullptr;  // [ClassifierChunkRows, at least 1; classes]
};

// For batches of up to `shape`.
template <typename T>
ClassifierScratch<T> TakeClassifierScratch(const Compute& /*compute*/,
                                           HeadShape shape,
                                           BufferCutter& cutter) {
  const int64_t rows = std::max<int64_t>(1, ClassifierChunkRows(shape));
  return {.logits = cutter.Take<T>(rows * shape.classes)};
}

// *loss_sum += the loss; dx =, dweight and dbias = or +=, the gradients of
// terms.scale times the loss. dbias is null iff bias is.
template <typename T>
void ClassifierTrain(const Compute& compute, HeadShape shape,
                     const LossTerms& terms, Write write, const T* x,
                     const T* weight, const T* bias, const int32_t* targets,
                     const ClassifierScratch<T>& scratch, T* dx, T* dweight,
                     T* dbias, double* loss_sum);

// *loss_sum += the loss without smoothing; *correct += the rows whose target has the largest
// logit, and is the first of those that have; outcomes [rows], if not null, = each row's.
template <typename T>
void ClassifierPredict(const Compute& compute, HeadShape shape, const T* x,
                       const T* weight, const T* bias, const int32_t* targets,
                       const ClassifierScratch<T>& scratch, double* loss_sum,
                       int64_t* correct, ClassOutcome* outcomes = nullptr);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CLASSIFIER_H_
