// Quotes what others wrote (names, values, lines of files) in a message for people.
//
// Thread-safety: pure.
#ifndef RINGMASTER_COMMON_TEXT_QUOTED_H_
#define RINGMASTER_COMMON_TEXT_QUOTED_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ringmaster {

// Enough of a text to find it again, and little enough for a line.
inline constexpr size_t kMaxQuotedBytes = 200;

// Returns "\"text\"", on one line and not too long, whatever `text` holds: control
// characters, quotes and backslashes are escaped as in C, as is all that is not ASCII if the
// text is no UTF-8; "..." stands for what is beyond `max_bytes`.
[[nodiscard]] std::string Quoted(std::string_view text,
                                 size_t max_bytes = kMaxQuotedBytes);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TEXT_QUOTED_H_
