#include "server/coordinator/page/request_rules.h"

#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/address.h"

namespace ringmaster::coordinator {

std::string_view HostOf(std::string_view header) {
  if (header.starts_with('[')) {
    const size_t end = header.find(']');
    return end == std::string_view::npos ? "" : header.substr(1, end - 1);
  }
  const size_t colon = header.find(':');
  if (colon != header.rfind(':')) return "";
  return header.substr(0, colon);
}

bool IsOwnHost(std::string_view header, std::string_view listen_host) {
  const std::string host = absl::AsciiStrToLower(std::string(HostOf(header)));
  return !host.empty() &&
         (IsLoopback(host) ||
          host == absl::AsciiStrToLower(std::string(listen_host)));
}

bool IsSameOrigin(std::string_view origin, std::string_view host) {
  if (origin.empty()) return true;
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (origin.starts_with(scheme) && origin.substr(scheme.size()) == host)
      return true;
  }
  return false;
}

std::string CookieValue(std::string_view header, std::string_view name) {
  const std::string start = absl::StrCat(std::string(name), "=");
  const std::vector<std::string> cookies =
      absl::StrSplit(std::string(header), ';');
  for (const std::string& cookie : cookies) {
    const std::string pair(absl::StripAsciiWhitespace(cookie));
    if (pair.starts_with(start)) return pair.substr(start.size());
  }
  return "";
}

std::span<const std::pair<std::string_view, std::string_view>>
SecurityHeaders() {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6>
      kHeaders = {{
          {"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; "
           "img-src 'self'; connect-src 'self'; base-uri 'none'; "
           "form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
      }};
  return kHeaders;
}

std::string StreamPosition::ToString() const {
  return absl::StrCat(incarnation, "-", event_sequence, "-", revision);
}

std::optional<StreamPosition> StreamPosition::Parse(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), '-');
  StreamPosition position;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &position.incarnation) ||
      !absl::SimpleAtoi(parts[1], &position.event_sequence) ||
      !absl::SimpleAtoi(parts[2], &position.revision)) {
    return std::nullopt;
  }
  return position;
}

}  // namespace ringmaster::coordinator
