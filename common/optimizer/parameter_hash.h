// HashParameters is the fingerprint by which ranks check that they hold equal
// parameters.
#ifndef RINGMASTER_COMMON_OPTIMIZER_PARAMETER_HASH_H_
#define RINGMASTER_COMMON_OPTIMIZER_PARAMETER_HASH_H_

#include <cstdint>

#include "common/plan/arena.h"

namespace ringmaster {

// XXH3-64 of the arena's bytes, padding included (it is zero). Equal bits give
// equal hashes; -0.0 and 0.0 differ.
uint64_t HashParameters(const Arena& arena);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_PARAMETER_HASH_H_
