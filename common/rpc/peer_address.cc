#include "common/rpc/peer_address.h"

#include <optional>

#include "absl/strings/ascii.h"

namespace ringmaster {
namespace {

std::optional<int> HexDigit(char c) {
  if (absl::ascii_isdigit(c)) return c - '0';
  if (absl::ascii_isxdigit(c)) return absl::ascii_tolower(c) - 'a' + 10;
  return std::nullopt;
}

// A '%' without two hexadecimal digits after it stands for itself, as in the
// scope of an address that was not encoded.
std::string PercentDecoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const std::optional<int> high = HexDigit(text[i + 1]);
      const std::optional<int> low = HexDigit(text[i + 2]);
      if (high.has_value() && low.has_value()) {
        result += static_cast<char>(*high * 16 + *low);
        i += 2;
        continue;
      }
    }
    result += text[i];
  }
  return result;
}

}  // namespace

std::string HostOfPeer(std::string_view peer) {
  constexpr std::string_view kMapped = "::ffff:";
  const bool is_ipv4 = peer.starts_with("ipv4:");
  if (!is_ipv4 && !peer.starts_with("ipv6:")) return "";
  const std::string address = PercentDecoded(peer.substr(5));
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  std::string_view host = std::string_view(address).substr(0, colon);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return "";
    host = host.substr(1, host.size() - 2);
  }
  if (host.starts_with(kMapped) && host.find('.') != std::string_view::npos) {
    host.remove_prefix(kMapped.size());
  }
  return std::string(host);
}

}  // namespace ringmaster
