// BpeTables are the checked contents of a byte-level BPE vocabulary's two
// files.
//
// vocab.json is one object of token -> id. merges.txt has a pair of tokens on
// each line, the pair to merge first on top, after an optional line that
// begins with "#version". In both, a token's bytes are written as characters:
// the 188 printable ones of Latin-1 stand for themselves, and the other 68
// bytes, in order, for U+0100 and on (OpenAI's encoder.py, 2019).
#ifndef RINGMASTER_WORKER_DATA_BPE_TABLES_H_
#define RINGMASTER_WORKER_DATA_BPE_TABLES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace ringmaster {

struct BpeTables {
  struct Merge {
    int32_t rank = 0;    // the lower, the earlier
    int32_t result = 0;  // the id of the two together
  };
  static uint64_t PairKey(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }

  std::vector<std::string> bytes_of_id;
  std::array<int32_t, 256> id_of_byte = {};
  absl::flat_hash_map<uint64_t, Merge> merges;  // by PairKey
  std::optional<int32_t> end_of_text;           // of "<|endoftext|>"
};

// Every error is one line that names the file, and the line or the token.
//   NOT_FOUND, PERMISSION_DENIED  a file cannot be read
//   INVALID_ARGUMENT  malformed JSON; ids that are not 0 to n - 1, each once;
//                     a character that stands for no byte; no token for some
//                     byte; a line without two tokens; a merge of, or into,
//                     what is not in the vocabulary; a merge listed twice
[[nodiscard]] absl::StatusOr<BpeTables> LoadBpeTables(
    const std::string& vocab_path, const std::string& merges_path);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_BPE_TABLES_H_
