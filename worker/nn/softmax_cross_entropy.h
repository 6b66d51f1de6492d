// Softmax and cross entropy in one: the last operator of a classifier.
//
// Shapes: logits, probabilities, dlogits [batch,classes]; targets [batch] in
// [0, classes). T is float or double. A logit that is NaN or +infinity makes
// the loss not finite.
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_SOFTMAX_CROSS_ENTROPY_H_
#define RINGMASTER_WORKER_NN_SOFTMAX_CROSS_ENTROPY_H_

#include <cstdint>

namespace ringmaster {

struct ClassifierShape {
  int64_t batch;
  int64_t classes;
};

// Returns the sum over the batch of -ln(softmax(logits)[target]), added in
// double in order of the batch; and replaces logits by probabilities, in place.
template <typename T>
double SoftmaxCrossEntropyForward(ClassifierShape shape, const int32_t* targets,
                                  T* logits);

// Replaces the probabilities that forward left by dlogits = scale *
// (probabilities - one_hot(target)), in place.
template <typename T>
void SoftmaxCrossEntropyBackward(ClassifierShape shape, const int32_t* targets,
                                 double scale, T* probabilities);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_SOFTMAX_CROSS_ENTROPY_H_
