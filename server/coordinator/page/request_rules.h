// The page's rules for requests, apart from the HTTP server: which Host is ours, what
// a cookie says, which headers every answer has, where a stream goes on. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_REQUEST_RULES_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_REQUEST_RULES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ringmaster::coordinator {

// True if a header "Host: `header`" names `listen_host` or loopback, with any port or
// none: a tunnel (ssh -L) has a port of its own. A page of another site whose name was
// made to lead here (DNS rebinding) says that site's name.
[[nodiscard]] bool IsOwnHost(std::string_view header,
                             std::string_view listen_host);
// The host of "HOST", "HOST:PORT" or "[HOST]:PORT"; empty if it is none of these.
[[nodiscard]] std::string_view HostOf(std::string_view header);

// True unless a script of another page has sent a request with the headers "Origin:
// `origin`" and "Host: `host`": a browser sends the first with whatever may change
// something, programs do not.
[[nodiscard]] bool IsSameOrigin(std::string_view origin, std::string_view host);

// The value of the cookie `name`; empty if there is none.
[[nodiscard]] std::string CookieValue(std::string_view header,
                                      std::string_view name);

// Headers of every answer, whoever asked: nothing but our own files runs in the page,
// and no other page frames it.
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>>
SecurityHeaders();

// The news that a viewer has seen: it is the id of each event of the stream, and comes back as
// Last-Event-ID.
struct StreamPosition {
  uint64_t incarnation = 0;    // the coordinator process that counts the rest
  int64_t event_sequence = 0;  // the newest event
  int64_t revision = 0;        // of the status

  [[nodiscard]] std::string ToString() const;
  // nullopt: not the text of a position.
  [[nodiscard]] static std::optional<StreamPosition> Parse(
      std::string_view text);

  friend bool operator==(const StreamPosition&,
                         const StreamPosition&) = default;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_REQUEST_RULES_H_
