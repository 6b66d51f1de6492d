#include "worker/data/wordpiece_tokenizer.h"

#include <utf8proc.h>

#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "worker/data/data_file.h"

namespace ringmaster {
namespace {

constexpr size_t kMostWordCharacters = 100;

enum class CharKind { kWord, kSpace, kAlone, kDropped };

bool IsIdeograph(utf8proc_int32_t c) {
  constexpr std::array<std::pair<int32_t, int32_t>, 8> kBlocks = {
      {{0x3400, 0x4dbf},
       {0x4e00, 0x9fff},
       {0xf900, 0xfaff},
       {0x20000, 0x2a6df},
       {0x2a700, 0x2b73f},
       {0x2b740, 0x2b81f},
       {0x2b820, 0x2ceaf},
       {0x2f800, 0x2fa1f}}};
  for (const auto& [first, last] : kBlocks)
    if (c >= first && c <= last) return true;
  return false;
}

bool IsAsciiMark(utf8proc_int32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

CharKind KindOf(utf8proc_int32_t c) {
  if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return CharKind::kSpace;
  if (IsAsciiMark(c) || IsIdeograph(c)) return CharKind::kAlone;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharKind::kSpace;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharKind::kAlone;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
      return CharKind::kDropped;
    default:
      return c == 0xfffd ? CharKind::kDropped : CharKind::kWord;
  }
}

void Append(utf8proc_int32_t c, std::string& text) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(c, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

// The character in lower case, without its accents.
void AppendPlain(utf8proc_int32_t c, std::string& text) {
  constexpr utf8proc_ssize_t kMost = 32;
  std::array<utf8proc_int32_t, kMost> parts;
  int last_class = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(utf8proc_tolower(c), parts.data(), kMost,
                              UTF8PROC_DECOMPOSE, &last_class);
  if (count < 0 || count > kMost) return Append(c, text);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    if (utf8proc_category(parts[static_cast<size_t>(i)]) !=
        UTF8PROC_CATEGORY_MN) {
      Append(parts[static_cast<size_t>(i)], text);
    }
  }
}

// The next character of `text`, which is taken off; -1 for a byte that is none.
utf8proc_int32_t TakeCharacter(std::string_view& text) {
  utf8proc_int32_t c = -1;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &c);
  text.remove_prefix(bytes > 0 ? static_cast<size_t>(bytes) : 1);
  return bytes > 0 ? c : -1;
}

// The length of the last character of `text`, which is UTF-8.
size_t LastCharacterBytes(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() &&
         (static_cast<uint8_t>(text[text.size() - bytes]) & 0xc0) == 0x80)
    ++bytes;
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WordPieceTokenizer>> WordPieceTokenizer::Load(
    const std::string& vocab_path, bool lowercase) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(vocab_path));
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                        file.bytes().size());
  std::unique_ptr<WordPieceTokenizer> tokenizer(new WordPieceTokenizer);
  tokenizer->lowercase_ = lowercase;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string token(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!token.empty() && token.back() == '\r') token.pop_back();
    const auto id = static_cast<int32_t>(tokenizer->ids_.size());
    if (!tokenizer->ids_.emplace(token, id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(vocab_path, ": line ", id + 1, ": ", Quoted(token),
                       " is there twice"));
    }
  }
  const std::optional<int32_t> unknown = tokenizer->Find("[UNK]");
  if (!unknown.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        vocab_path, " has no \"[UNK]\", as BERT's vocab.txt does"));
  }
  tokenizer->unknown_ = *unknown;
  return tokenizer;
}

std::optional<int32_t> WordPieceTokenizer::Find(std::string_view token) const {
  const auto found = ids_.find(absl::string_view(token.data(), token.size()));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::vector<int32_t> WordPieceTokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) EncodeWord(word, tokens);
    word.clear();
  };
  while (!text.empty()) {
    const utf8proc_int32_t c = TakeCharacter(text);
    if (c <= 0) continue;
    switch (KindOf(c)) {
      case CharKind::kDropped:
        continue;
      case CharKind::kSpace:
        end_word();
        continue;
      case CharKind::kAlone:
        end_word();
        Append(c, word);
        end_word();
        continue;
      case CharKind::kWord:
        if (lowercase_) {
          AppendPlain(c, word);
        } else {
          Append(c, word);
        }
    }
  }
  end_word();
  return tokens;
}

void WordPieceTokenizer::EncodeWord(std::string_view word,
                                    std::vector<int32_t>& tokens) const {
  const size_t before = tokens.size();
  size_t characters = 0;
  for (const char c : word)
    characters += (static_cast<uint8_t>(c) & 0xc0) == 0x80 ? 0 : 1;
  std::string piece;
  size_t begin = 0;
  while (begin < word.size() && characters <= kMostWordCharacters) {
    piece = begin == 0 ? "" : "##";
    const size_t prefix = piece.size();
    piece += word.substr(begin);
    auto found = ids_.find(piece);
    while (found == ids_.end() && piece.size() > prefix) {
      piece.resize(piece.size() - LastCharacterBytes(piece));
      if (piece.size() > prefix) found = ids_.find(piece);
    }
    if (found == ids_.end()) break;
    tokens.push_back(found->second);
    begin += piece.size() - prefix;
  }
  if (begin == word.size()) return;
  tokens.resize(before);
  tokens.push_back(unknown_);
}

}  // namespace ringmaster
