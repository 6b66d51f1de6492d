// PageServer serves the web page: its files, the state, and a stream of changes.
//
//   GET /              the page, and its files beside it; anybody may have these
//   GET /api/state     the status, as `ringctl -o json status` gives it
//   GET /api/events    a stream of server-sent events (text/event-stream): `status`,
//                      the same, and `log`, new events as `ringctl -o json events`
//                      gives them; after a Last-Event-ID only what came later
//   GET /api/log       the events that are kept, or those after ?after=LAST_EVENT_ID
//   GET /api/jobs/ID   a job, its explanation and its curves
//   GET /api/jobs/ID/trace  what its ranks did when, as GetTraceResponse, in the steps
//                      ?first_step=N&last_step=N, or in the newest
//   GET /api/jobs/ID/trace.json  the same of all steps that are held, or of these, as a
//                      file for https://ui.perfetto.dev
//   POST /api/login    takes a token, in the body; the answer sets a cookie
//   DELETE /api/login  ends that login
//   GET /api/session   who asks, and which actions it may do
//   POST /api/actions/ACTION  does it; see page_actions.h
//
// Where there is TLS, /api needs a token, or a login, that may call WatchStatus, and a
// trace or an action one that may call its method; elsewhere it listens on loopback alone. A request
// that another site's page has sent is refused.
// An answer that is an error is one line of text.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_SERVER_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/address.h"

namespace ringmaster {
class AccessControl;
class TlsWatch;
}  // namespace ringmaster

namespace ringmaster::coordinator {

class CoordinatorRuntime;

struct PageOptions {
  HostPort listen;  // port 0: any free one
  // Both or neither: the coordinator's certificate, and who is admitted.
  std::shared_ptr<const TlsWatch> tls = nullptr;
  std::shared_ptr<const AccessControl> access = nullptr;
  // Where curves are kept for the next coordinator (history_file.h); empty: nowhere.
  std::string history_file = {};
  // Streams at once; each holds a thread. Further pages ask every two seconds.
  int max_streams = 16;
};

// OK iff the page may listen there: on loopback in clear text, or with TLS and tokens.
// INVALID_ARGUMENT says what to give instead.
[[nodiscard]] absl::Status CheckPageAddress(const HostPort& listen,
                                            bool has_tls, bool has_tokens);

// Thread-compatible. Free of the HTTP server's headers.
class PageServer {
 public:
  // Serves `runtime`, which must outlive the server.
  //   FAILED_PRECONDITION  cannot listen there: taken, not an address of this host
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PageServer>> Start(
      CoordinatorRuntime& runtime, PageOptions options);

  // Stops, and waits a second for the requests under way before it breaks their
  // connections; so no client holds it up.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // Takes no more requests and ends the streams. Returns at once.
  void Stop();

  // Its address, with the chosen port.
  [[nodiscard]] const HostPort& address() const;
  // "http://127.0.0.1:8080/".
  [[nodiscard]] std::string url() const;

 private:
  struct Impl;
  explicit PageServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_SERVER_H_
