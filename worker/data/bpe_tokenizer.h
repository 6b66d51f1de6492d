// BpeTokenizer turns text into GPT-2's tokens and back.
//
// Byte-level byte-pair encoding (Sennrich et al., 2016; Radford et al., 2019):
// text is split into words (pretokenizer.h); a word starts as its bytes. The
// pair of neighbours that comes first in the list of merges is merged wherever
// it occurs, from left to right, until no pair of the list is left.
//
// Guarantees: any bytes at all can be encoded, and Decode gives them back.
// Special tokens are never made from text: "<|endoftext|>" in it is encoded as
// the characters it is written with.
// Cost: O(n log n) in the length of a word, which is bounded; recent words are
// looked up in a cache of bounded size.
// Thread-safety: thread-safe.
// Example:
//   ASSIGN_OR_RETURN(std::unique_ptr<BpeTokenizer> tokenizer,
//                    BpeTokenizer::Load("vocab.json", "merges.txt"));
//   std::vector<int32_t> tokens = tokenizer->Encode("Hello world");
#ifndef RINGMASTER_WORKER_DATA_BPE_TOKENIZER_H_
#define RINGMASTER_WORKER_DATA_BPE_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "worker/data/bpe_tables.h"

namespace ringmaster {

class BpeTokenizer {
 public:
  // Errors: LoadBpeTables'.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BpeTokenizer>> Load(
      const std::string& vocab_path, const std::string& merges_path);
  explicit BpeTokenizer(BpeTables tables) : tables_(std::move(tables)) {}

  // Token ids are [0, vocabulary()).
  int64_t vocabulary() const {
    return static_cast<int64_t>(tables_.bytes_of_id.size());
  }
  // The id of "<|endoftext|>", if there is such a token.
  std::optional<int32_t> end_of_text() const { return tables_.end_of_text; }

  // The id of a token by what it is written with, such as "<s>".
  std::optional<int32_t> Find(std::string_view token) const;

  [[nodiscard]] std::vector<int32_t> Encode(std::string_view text) const;
  // Appends the tokens of whole words from the start of `text`, until these
  // have `min_bytes` (> 0) or the text ends. Returns the number of bytes that
  // they have, which exceeds min_bytes by less than a word. For long texts: the
  // caller can check for a cancellation between parts.
  size_t EncodeSome(std::string_view text, size_t min_bytes,
                    std::vector<int32_t>& tokens) const;

  // INVALID_ARGUMENT  an id outside [0, vocabulary())
  [[nodiscard]] absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> tokens) const;

 private:
  // Words of one part of the hash space, with their tokens. When full, it
  // starts again empty: frequent words come back at once.
  class WordCache {
   public:
    // Appends the tokens of `word` and returns true, if they are known.
    bool Find(std::string_view word, std::vector<int32_t>& tokens) const;
    void Add(std::string_view word, absl::Span<const int32_t> tokens);

   private:
    struct Place {
      uint32_t begin = 0;  // in tokens_
      uint32_t count = 0;
    };
    mutable Mutex mutex_;
    absl::flat_hash_map<std::string, Place> words_ GUARDED_BY(mutex_);
    std::vector<int32_t> tokens_ GUARDED_BY(mutex_);
  };
  class Word;

  void EncodeWord(std::string_view word, Word& scratch,
                  std::vector<int32_t>& tokens) const;

  // Several, so that threads seldom wait for each other.
  static constexpr size_t kCaches = 16;

  const BpeTables tables_;
  mutable std::array<WordCache, kCaches> caches_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_BPE_TOKENIZER_H_
