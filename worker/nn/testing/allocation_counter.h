// AllocationCount counts the uses of operator new in the program that links it:
// for tests that a step allocates nothing.
//
// Thread-safety: thread-safe.
#ifndef RINGMASTER_WORKER_NN_TESTING_ALLOCATION_COUNTER_H_
#define RINGMASTER_WORKER_NN_TESTING_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace ringmaster {

// Calls of operator new since the program began, by all threads.
int64_t AllocationCount();

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_TESTING_ALLOCATION_COUNTER_H_
