// Plain versions of classifier.h: row by row from the formula, in double. Same
// shapes and meaning; `smoothing` is LossTerms'.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_TESTING_REFERENCE_CLASSIFIER_H_
#define RINGMASTER_WORKER_NN_TESTING_REFERENCE_CLASSIFIER_H_

#include <cstdint>
#include <vector>

#include "worker/nn/class_outcome.h"
#include "worker/nn/classifier.h"
#include "worker/nn/compute.h"

namespace ringmaster::reference {

struct ClassifierResult {
  double loss_sum = 0;
  // Rows whose target has the largest logit, and is the first of those that
  // have.
  int64_t correct = 0;
  std::vector<ClassOutcome> outcomes;  // of each row
};

template <typename T>
double ClassifierTrain(HeadShape shape, double scale, Write write, const T* x,
                       const T* weight, const T* bias, const int32_t* targets,
                       T* dx, T* dweight, T* dbias, double smoothing = 0);

template <typename T>
ClassifierResult ClassifierPredict(HeadShape shape, const T* x, const T* weight,
                                   const T* bias, const int32_t* targets);

}  // namespace ringmaster::reference

#endif  // RINGMASTER_WORKER_NN_TESTING_REFERENCE_CLASSIFIER_H_
