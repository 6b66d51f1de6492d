#include "common/config/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

constexpr int kMaxPort = 65535;

bool IsIpv6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
         c == '.' || c == '_';
}

absl::Status Malformed(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", std::string(text), "\": ", std::string(why),
                   "; write HOST:PORT, as node-7:29400, 10.0.0.7:29400 or "
                   "[fd00::7]:29400"));
}

absl::StatusOr<HostPort> WithPort(std::string_view text, std::string host,
                                  std::string_view port) {
  HostPort parsed = {.host = std::move(host), .port = 0};
  const bool has_digits_only =
      !port.empty() && std::all_of(port.begin(), port.end(), [](char c) {
        return absl::ascii_isdigit(static_cast<unsigned char>(c));
      });
  if (!has_digits_only ||
      !absl::SimpleAtoi(absl::string_view(port.data(), port.size()),
                        &parsed.port) ||
      parsed.port > kMaxPort) {
    return Malformed(text, "the port is not a number from 0 to 65535");
  }
  return parsed;
}

absl::StatusOr<HostPort> ParseBracketed(std::string_view text) {
  const size_t close = text.find(']');
  if (close == std::string_view::npos) return Malformed(text, "no \"]\"");
  std::string host(text.substr(1, close - 1));
  if (!IsIpv6(host)) return Malformed(text, "no IPv6 address in brackets");
  const std::string_view rest = text.substr(close + 1);
  if (!rest.starts_with(':')) return Malformed(text, "no port");
  return WithPort(text, std::move(host), rest.substr(1));
}

}  // namespace

std::string HostPort::ToString() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? absl::StrCat("[", host, "]:", port)
                 : absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  if (text.starts_with('[')) return ParseBracketed(text);
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return Malformed(text, "no port");
  if (text.find(':', colon + 1) != std::string_view::npos) {
    return Malformed(text, "an IPv6 address needs brackets");
  }
  const std::string_view host = text.substr(0, colon);
  if (host.empty()) {
    return Malformed(text, "no host (0.0.0.0 stands for every interface)");
  }
  if (!std::all_of(host.begin(), host.end(), IsNameCharacter)) {
    return Malformed(text, "no host name");
  }
  return WithPort(text, std::string(host), text.substr(colon + 1));
}

bool IsLoopback(std::string_view address) {
  if (address.starts_with("unix:") || address.starts_with("unix-abstract:")) {
    return true;
  }
  std::string host(address);
  if (const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
      parsed.ok()) {
    host = parsed->host;
  }
  if (absl::AsciiStrToLower(host) == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == 127;
  }
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace ringmaster
