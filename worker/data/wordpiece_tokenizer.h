// WordPieceTokenizer turns text into BERT's tokens.
//
// As Google's BERT does (Devlin et al., "BERT", 2019): control characters are
// dropped; with lower case, letters lose their accents as well; text is split
// at white space, and each mark of punctuation and each CJK ideograph is a word
// of its own. A word is the longest tokens of the vocabulary from left to
// right, all but the first of which begin with "##"; one that is longer than
// 100 characters or cannot be made of them is "[UNK]". Special tokens are never
// made from text. Bytes that are no UTF-8 are dropped.
// Thread-safety: immutable, so thread-safe.
#ifndef RINGMASTER_WORKER_DATA_WORDPIECE_TOKENIZER_H_
#define RINGMASTER_WORKER_DATA_WORDPIECE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace ringmaster {

class WordPieceTokenizer {
 public:
  // Reads BERT's vocab.txt: a token in each line, whose number, from 0, is its
  // id.
  //   FileError's codes  the file cannot be read
  //   INVALID_ARGUMENT   a token is there twice, or there is no "[UNK]"
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<WordPieceTokenizer>> Load(
      const std::string& vocab_path, bool lowercase);

  // Token ids are [0, vocabulary()).
  int64_t vocabulary() const { return static_cast<int64_t>(ids_.size()); }
  std::optional<int32_t> Find(std::string_view token) const;
  [[nodiscard]] std::vector<int32_t> Encode(std::string_view text) const;

 private:
  WordPieceTokenizer() = default;
  // Appends the tokens of one word.
  void EncodeWord(std::string_view word, std::vector<int32_t>& tokens) const;

  absl::flat_hash_map<std::string, int32_t> ids_;
  bool lowercase_ = true;
  int32_t unknown_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_WORDPIECE_TOKENIZER_H_
