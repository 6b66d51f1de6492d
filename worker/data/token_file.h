// TokenFile reads tokens that were made beforehand: a file of 16-bit ids,
// mapped into memory and so of any size.
//
// Two formats, both little-endian:
//   llm.c    256 int32 (magic 20240520, version 1, number of tokens, zeros),
//            then the tokens as uint16 (github.com/karpathy/llm.c)
//   nanoGPT  the tokens as uint16, and nothing else
//            (github.com/karpathy/nanoGPT)
// Thread-safety: immutable.
#ifndef RINGMASTER_WORKER_DATA_TOKEN_FILE_H_
#define RINGMASTER_WORKER_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/data_file.h"

namespace ringmaster {

enum class TokenFormat {
  kDetect,  // llm.c if the file begins with its magic, else raw
  kLlmC,
  kRaw,
};

class TokenFile {
 public:
  // Every error is one line that names the file.
  //   NOT_FOUND, PERMISSION_DENIED  FileError's
  //   INVALID_ARGUMENT  another magic or version than llm.c's; another number
  //                     of tokens than the header tells; an odd number of
  //                     bytes; no tokens
  [[nodiscard]] static absl::StatusOr<TokenFile> Open(const std::string& path,
                                                      TokenFormat format);

  void Expect(MappedFile::ReadOrder order) const { file_.Expect(order); }
  absl::Span<const uint16_t> tokens() const { return tokens_; }
  int64_t size_bytes() const {
    return static_cast<int64_t>(file_.bytes().size());
  }

 private:
  TokenFile(MappedFile file, absl::Span<const uint16_t> tokens)
      : file_(std::move(file)), tokens_(tokens) {}

  MappedFile file_;
  absl::Span<const uint16_t> tokens_;  // in file_
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_TOKEN_FILE_H_
