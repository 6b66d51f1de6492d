// HttpServer: the HTTP server of cpp-httplib, with connections that can be broken.
//
// The library keeps its sockets to itself, so a client that sends or takes a byte at a
// time would hold up the server's end. HttpServer carries the connections instead, and
// leaves requests and answers to the library.
// A connection is for one request. A client that sends or takes nothing for as long as
// set_read_timeout and set_write_timeout say loses its own, and so does one that in the
// clear takes longer for its request and the answer than set_request_limit says.
#ifndef RINGMASTER_COMMON_HTTP_HTTP_SERVER_H_
#define RINGMASTER_COMMON_HTTP_HTTP_SERVER_H_

#include <httplib.h>
#include <openssl/ssl.h>

#include <functional>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "common/sync/mutex.h"

namespace ringmaster {

// Thread-compatible until it listens, thread-safe then.
class HttpServer final : public httplib::Server {
 public:
  HttpServer() = default;
  // `set_up` prepares the TLS of all connections.
  explicit HttpServer(const std::function<void(SSL_CTX&)>& set_up);

  [[nodiscard]] bool is_valid() const override;

  // The most time from a request's first byte to the end of its answer, but for one read
  // or write; without a call there is no limit.
  void set_request_limit(absl::Duration limit) { request_limit_ = limit; }

  // Takes no more connections, and breaks those that have not begun a request.
  void Stop() EXCLUDES(mutex_);
  // Breaks all connections, once it has stopped.
  void BreakConnections() EXCLUDES(mutex_);

 private:
  // Listeners stop by Stop, which breaks idle connections, too.
  using httplib::Server::stop;

  bool process_and_close_socket(socket_t socket) override EXCLUDES(mutex_);
  // Serves a request from `socket`; true if that ended well.
  [[nodiscard]] bool Serve(int socket) EXCLUDES(mutex_);
  // Returns false if the server has stopped.
  [[nodiscard]] bool Add(int socket) EXCLUDES(mutex_);
  void Remove(int socket) EXCLUDES(mutex_);
  // Waits for the first byte; false if none came in time.
  [[nodiscard]] bool AwaitRequest(int socket) EXCLUDES(mutex_);

  const bool has_tls_ = false;
  // Null also if OpenSSL has no memory for it.
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> tls_{nullptr,
                                                               &SSL_CTX_free};
  absl::Duration request_limit_ = absl::InfiniteDuration();
  Mutex mutex_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  // Open connections, and whether their request has begun. A socket leaves before it is
  // closed, so its number is never that of another file.
  std::map<int, bool> connections_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_HTTP_HTTP_SERVER_H_
