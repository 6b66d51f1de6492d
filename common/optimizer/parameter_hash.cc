#include "common/optimizer/parameter_hash.h"

#include "xxhash.h"

namespace ringmaster {

uint64_t HashParameters(const Arena& arena) {
  return XXH3_64bits(arena.bytes().data(), arena.bytes().size());
}

}  // namespace ringmaster
