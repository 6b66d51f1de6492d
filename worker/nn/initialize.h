// InitializeParameters gives a model its first parameters.
#ifndef RINGMASTER_WORKER_NN_INITIALIZE_H_
#define RINGMASTER_WORKER_NN_INITIALIZE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/plan/plan.h"

namespace ringmaster {

// Fills `parameters` as the plan's specs say; padding becomes zero. Random
// numbers are a function of (seed, tensor name, index within the tensor), so
// every rank gets the same, whatever the layout. Values are rounded to float in
// every type, so that a run in double starts at exactly the point where a run
// in float does. Requires parameters.size() == plan.total_elems(). T is float
// or double.
template <typename T>
void InitializeParameters(const Plan& plan, uint64_t seed,
                          absl::Span<T> parameters);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_INITIALIZE_H_
