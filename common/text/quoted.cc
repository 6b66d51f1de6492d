#include "common/text/quoted.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace ringmaster {

std::string Quoted(std::string_view text, size_t max_bytes) {
  const std::string cut = BoundedUtf8(text, max_bytes);
  const std::string valid = ReplaceInvalidUtf8(cut);
  return absl::StrCat(
      "\"",
      valid == cut ? absl::Utf8SafeCHexEscape(cut) : absl::CHexEscape(cut),
      cut.size() < text.size() ? "..." : "", "\"");
}

}  // namespace ringmaster
