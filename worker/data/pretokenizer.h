// Pretokenizer: splits text into the words that byte-pair merges stay within.
//
// The split is GPT-2's (Radford et al., "Language Models are Unsupervised
// Multitask Learners", 2019), whose pattern in Unicode is
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// tried in this order at every place: contractions; runs of letters, of
// numbers or of other characters, each with the one space before it; white
// space, of which the last character is left to the word that follows.
// A byte that is not part of valid UTF-8 is a character of its own, neither
// letter nor number nor white space.
#ifndef RINGMASTER_WORKER_DATA_PRETOKENIZER_H_
#define RINGMASTER_WORKER_DATA_PRETOKENIZER_H_

#include <cstddef>
#include <string_view>

namespace ringmaster {

// Longer runs are cut, so that a word's cost is bounded whatever the text is.
// Here the split differs from the pattern's.
inline constexpr size_t kMaxWordBytes = size_t{1} << 20;

// Returns the length of the first word of `text`, which must not be empty; > 0,
// and successive words tile the text. Nothing before `text` matters, so a text
// may be split from any word border on.
size_t FirstWordBytes(std::string_view text);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_PRETOKENIZER_H_
