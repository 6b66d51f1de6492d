// FileDigest is a checkpoint manifest's record of the bytes of a file: their
// number, and the XXH3-64 (https://xxhash.com) of all of them and of each
// block, which shows where a damaged file is damaged.
#ifndef RINGMASTER_WORKER_CHECKPOINT_FILE_DIGEST_H_
#define RINGMASTER_WORKER_CHECKPOINT_FILE_DIGEST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

struct XXH3_state_s;

namespace ringmaster {

inline constexpr int64_t kDigestBlockBytes = int64_t{16} << 20;

struct FileDigest {
  int64_t size_bytes = 0;
  uint64_t hash = 0;  // the same as of `xxhsum -H3`
  // Element i is the hash of the bytes [i * kDigestBlockBytes, (i + 1) *
  // kDigestBlockBytes); the last block may be shorter, and an empty file has
  // none.
  std::vector<uint64_t> block_hashes;

  friend bool operator==(const FileDigest&, const FileDigest&) = default;
};

// Computes a FileDigest of bytes that come in pieces. Thread-compatible.
class DigestBuilder {
 public:
  DigestBuilder();

  void Add(absl::Span<const uint8_t> bytes);
  // Returns the digest of all bytes so far; the builder is used up.
  FileDigest Finish();

 private:
  struct FreeState {
    void operator()(XXH3_state_s* state) const;
  };
  using State = std::unique_ptr<XXH3_state_s, FreeState>;
  void CloseBlock();

  FileDigest digest_;
  State file_state_;
  State block_state_;
  int64_t block_bytes_ = 0;  // of the open block
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_FILE_DIGEST_H_
