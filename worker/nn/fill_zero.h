// FillZero: x [count] = 0, as an operator (backend.h).
#ifndef RINGMASTER_WORKER_NN_FILL_ZERO_H_
#define RINGMASTER_WORKER_NN_FILL_ZERO_H_

#include <algorithm>
#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

template <typename T>
void FillZero(const Compute& /*compute*/, int64_t count, T* x) {
  std::fill_n(x, count, T{0});
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_FILL_ZERO_H_
