// ClassOutcome is what a model says of one sample's class.
#ifndef RINGMASTER_WORKER_NN_CLASS_OUTCOME_H_
#define RINGMASTER_WORKER_NN_CLASS_OUTCOME_H_

#include <cstdint>

namespace ringmaster {

struct ClassOutcome {
  // The class with the largest logit, the first of equal ones.
  int32_t predicted = 0;
  // Classes that come before the target's: those with a larger logit, or with
  // an equal one and a smaller number. 0: the target is predicted.
  int32_t rivals = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CLASS_OUTCOME_H_
