#include "worker/data/token_file.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tokens are used as they lie in the file");

constexpr int32_t kMagic = 20240520;
// llm.c's format of 32-bit tokens, for vocabularies of more than 2^16.
constexpr int32_t kWideMagic = 20240801;
constexpr int32_t kVersion = 1;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);
constexpr size_t kTokenBytes = sizeof(uint16_t);

absl::Status Refuse(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

int32_t HeaderField(absl::Span<const uint8_t> bytes, size_t index) {
  int32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return value;
}

absl::Status CheckHeader(const std::string& path,
                         absl::Span<const uint8_t> bytes) {
  if (bytes.size() < kHeaderBytes) {
    return Refuse(path, absl::StrCat("has ", bytes.size(),
                                     " bytes, but llm.c's header alone has ",
                                     kHeaderBytes));
  }
  if (HeaderField(bytes, 0) != kMagic) {
    return Refuse(path, absl::StrCat("begins with ", HeaderField(bytes, 0),
                                     ", but llm.c's files begin with ", kMagic,
                                     "; if it has no header, the format is "
                                     "raw"));
  }
  if (HeaderField(bytes, 1) != kVersion) {
    return Refuse(path,
                  absl::StrCat("has llm.c's version ", HeaderField(bytes, 1),
                               ", but only version ", kVersion, " is known"));
  }
  const int64_t count = HeaderField(bytes, 2);
  const auto found = static_cast<int64_t>(bytes.size() - kHeaderBytes);
  if (count < 0 || found != count * static_cast<int64_t>(kTokenBytes)) {
    return Refuse(path, absl::StrCat("its header tells of ", count,
                                     " tokens of 2 bytes, but ", found,
                                     " bytes follow it; was it cut short?"));
  }
  return absl::OkStatus();
}

// Returns true if the file is to be read as llm.c's.
absl::StatusOr<bool> HasHeader(const std::string& path, TokenFormat format,
                               absl::Span<const uint8_t> bytes) {
  if (format != TokenFormat::kDetect) return format == TokenFormat::kLlmC;
  if (bytes.size() < sizeof(int32_t)) return false;
  const int32_t magic = HeaderField(bytes, 0);
  if (magic == kWideMagic) {
    return Refuse(path,
                  "has 32-bit tokens, as llm.c writes for vocabularies "
                  "of more than 65536; only 16-bit tokens can be read");
  }
  return magic == kMagic;
}

}  // namespace

absl::StatusOr<TokenFile> TokenFile::Open(const std::string& path,
                                          TokenFormat format) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::Span<const uint8_t> bytes = file.bytes();
  ASSIGN_OR_RETURN(const bool has_header, HasHeader(path, format, bytes));
  if (has_header) {
    RETURN_IF_ERROR(CheckHeader(path, bytes));
    bytes.remove_prefix(kHeaderBytes);
  }
  if (bytes.size() % kTokenBytes != 0) {
    return Refuse(path, absl::StrCat("has ", bytes.size(),
                                     " bytes, which is no whole number of "
                                     "2-byte tokens; was it cut short?"));
  }
  if (bytes.empty()) return Refuse(path, "holds no tokens");
  // Aligned: the mapping is to a page, and the header's size is even.
  const auto* tokens = reinterpret_cast<const uint16_t*>(bytes.data());
  return TokenFile(std::move(file), {tokens, bytes.size() / kTokenBytes});
}

}  // namespace ringmaster
