#include "worker/checkpoint/file_digest.h"

#include <algorithm>
#include <utility>

#include "common/status/check.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

// Small enough to be still in a near cache when the second hash reads it.
constexpr size_t kPieceBytes = size_t{128} << 10;

}  // namespace

void DigestBuilder::FreeState::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

DigestBuilder::DigestBuilder()
    : file_state_(XXH3_createState()), block_state_(XXH3_createState()) {
  RM_CHECK(file_state_ != nullptr && block_state_ != nullptr, "out of memory");
  XXH3_64bits_reset(file_state_.get());
  XXH3_64bits_reset(block_state_.get());
}

void DigestBuilder::Add(absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const size_t count =
        std::min({bytes.size(), kPieceBytes,
                  static_cast<size_t>(kDigestBlockBytes - block_bytes_)});
    XXH3_64bits_update(file_state_.get(), bytes.data(), count);
    XXH3_64bits_update(block_state_.get(), bytes.data(), count);
    digest_.size_bytes += static_cast<int64_t>(count);
    block_bytes_ += static_cast<int64_t>(count);
    if (block_bytes_ == kDigestBlockBytes) CloseBlock();
    bytes.remove_prefix(count);
  }
}

void DigestBuilder::CloseBlock() {
  digest_.block_hashes.push_back(XXH3_64bits_digest(block_state_.get()));
  XXH3_64bits_reset(block_state_.get());
  block_bytes_ = 0;
}

FileDigest DigestBuilder::Finish() {
  if (block_bytes_ > 0) CloseBlock();
  digest_.hash = XXH3_64bits_digest(file_state_.get());
  return std::move(digest_);
}

}  // namespace ringmaster
