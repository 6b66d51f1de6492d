// ContentHash: a 64-bit XXH3 of bytes that come in pieces; the cuts between
// pieces do not matter.
#ifndef RINGMASTER_WORKER_DATA_CONTENT_HASH_H_
#define RINGMASTER_WORKER_DATA_CONTENT_HASH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "xxhash.h"

namespace ringmaster {

class ContentHash {
 public:
  ContentHash() : state_(XXH3_createState()) {
    XXH3_64bits_reset(state_.get());
  }

  void Add(const void* bytes, size_t size) {
    XXH3_64bits_update(state_.get(), bytes, size);
  }
  uint64_t Digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_CONTENT_HASH_H_
