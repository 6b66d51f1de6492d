#include "common/text/utf8.h"

#include "nlohmann/json.hpp"

namespace ringmaster {

std::string BoundedUtf8(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return std::string(text.substr(0, end));
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  using nlohmann::json;
  const std::string quoted =
      json(bytes).dump(-1, ' ', false, json::error_handler_t::replace);
  return json::parse(quoted).get<std::string>();
}

}  // namespace ringmaster
