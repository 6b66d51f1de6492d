#include "worker/data/pretokenizer.h"

#include <utf8proc.h>

namespace ringmaster {
namespace {

enum class CharClass { kSpace, kLetter, kNumber, kOther };

struct Character {
  CharClass char_class = CharClass::kOther;
  size_t bytes = 0;
};

CharClass AsciiClass(unsigned char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    return CharClass::kLetter;
  if (c >= '0' && c <= '9') return CharClass::kNumber;
  // White_Space begins with tab, line feed, vertical tab, form feed and
  // carriage return.
  if (c == ' ' || (c >= '\t' && c <= '\r')) return CharClass::kSpace;
  return CharClass::kOther;
}

// Unicode's White_Space is the separators (Z) and a few control characters:
// the five of ASCII and U+0085, "next line".
CharClass UnicodeClass(utf8proc_int32_t code_point) {
  constexpr utf8proc_int32_t kNextLine = 0x85;
  if (code_point == kNextLine) return CharClass::kSpace;
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::kSpace;
    default:
      return CharClass::kOther;
  }
}

// The first character of `text`, which must not be empty.
Character FirstCharacter(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return {AsciiClass(first), 1};
  utf8proc_int32_t code_point = -1;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (bytes <= 0) return {CharClass::kOther, 1};
  return {UnicodeClass(code_point), static_cast<size_t>(bytes)};
}

// The length of the run of `char_class` that `text` begins with.
size_t RunBytes(std::string_view text, CharClass char_class) {
  size_t length = 0;
  while (length < text.size() && length < kMaxWordBytes) {
    const Character next = FirstCharacter(text.substr(length));
    if (next.char_class != char_class) break;
    length += next.bytes;
  }
  return length;
}

// The length of the contraction that `text` begins with, or 0.
size_t ContractionBytes(std::string_view text) {
  for (const std::string_view end :
       {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(0, end.size()) == end) return end.size();
  }
  return 0;
}

// The length of the white space that makes a word: all of it at the end of
// the text, else all but its last character, unless that is the only one.
size_t SpaceBytes(std::string_view text) {
  size_t length = 0;
  size_t last = 0;  // where the last character of the run begins
  while (length < text.size() && length < kMaxWordBytes) {
    const Character next = FirstCharacter(text.substr(length));
    if (next.char_class != CharClass::kSpace) return last > 0 ? last : length;
    last = length;
    length += next.bytes;
  }
  return length;
}

}  // namespace

size_t FirstWordBytes(std::string_view text) {
  if (text.front() == '\'') {
    const size_t contraction = ContractionBytes(text);
    if (contraction > 0) return contraction;
  }
  const size_t space = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  const std::string_view rest = text.substr(space);
  const CharClass char_class = FirstCharacter(rest).char_class;
  if (char_class == CharClass::kSpace) return SpaceBytes(text);
  return space + RunBytes(rest, char_class);
}

}  // namespace ringmaster
