// Makes texts of other origin fit for protobuf, JSON and terminals.
//
// Thread-safety: pure.
#ifndef RINGMASTER_COMMON_TEXT_UTF8_H_
#define RINGMASTER_COMMON_TEXT_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ringmaster {

// At most the first `max_bytes` of `text`, cut between two UTF-8 characters.
std::string BoundedUtf8(std::string_view text, size_t max_bytes);

// Returns `bytes` with U+FFFD in place of invalid UTF-8: a text that a model
// writes may begin or end within a character.
std::string ReplaceInvalidUtf8(std::string_view bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TEXT_UTF8_H_
