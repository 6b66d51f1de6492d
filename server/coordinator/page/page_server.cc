#include "server/coordinator/page/page_server.h"

#include <httplib.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/access/access_control.h"
#include "common/access/refusal_log.h"
#include "common/clock/clock.h"
#include "common/config/proto_to_json.h"
#include "common/credentials/tls_watch.h"
#include "common/http/bind.h"
#include "common/http/bounded_pool.h"
#include "common/http/http_server.h"
#include "common/http/running_server.h"
#include "common/status/status_macros.h"
#include "common/trace/chrome_trace.h"
#include "server/coordinator/page/certificate.h"
#include "server/coordinator/page/logins.h"
#include "server/coordinator/page/page_actions.h"
#include "server/coordinator/page/page_feed.h"
#include "server/coordinator/page/page_file.h"
#include "server/coordinator/page/page_trace.h"
#include "server/coordinator/page/request_rules.h"
#include "server/coordinator/rpc/runtime.h"

namespace ringmaster::coordinator {
namespace {

// For requests beside the streams. A client that sends or takes nothing gives its
// thread back after kIdleSeconds.
constexpr int kRequestThreads = 4;
constexpr time_t kIdleSeconds = 5;
// Connections that wait for a thread.
constexpr int kMaxQueued = 64;
// A stream looks this often whether its viewer is still there and still admitted,
// and says something this often, which shows that nothing between holds it back.
constexpr absl::Duration kStreamTurn = absl::Seconds(1);
constexpr absl::Duration kHeartbeat = absl::Seconds(5);
constexpr size_t kMaxBodyBytes = 4096;  // a token
constexpr char kCookie[] = "__Host-ringmaster";
// Whoever may watch the status may see the page.
constexpr char kMethod[] = "/ringmaster.v1.StatusService/WatchStatus";
constexpr char kTraceMethod[] = "/ringmaster.v1.JobService/GetTrace";
constexpr char kJson[] = "application/json";
constexpr char kText[] = "text/plain; charset=utf-8";

int HttpCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

void AnswerError(const absl::Status& status, httplib::Response& answer) {
  answer.status = HttpCode(status);
  answer.set_content(absl::StrCat(std::string(status.message()), "\n"), kText);
}

void Answer(const absl::StatusOr<std::string>& json,
            httplib::Response& answer) {
  if (!json.ok()) return AnswerError(json.status(), answer);
  answer.set_content(*json, kJson);
}

// An event of the stream (https://html.spec.whatwg.org/multipage/server-sent-events.html).
std::string StreamEvent(const char* type, const StreamPosition& position,
                        const std::string& json) {
  return absl::StrCat("id: ", position.ToString(), "\nevent: ", type,
                      "\ndata: ", json, "\n\n");
}

absl::StatusOr<std::string> StreamText(const PageNews& news) {
  std::string text;
  if (!news.events.events().empty()) {
    ASSIGN_OR_RETURN(
        const std::string json,
        ProtoToJson(news.events, {.is_indented = false, .has_defaults = true}));
    text += StreamEvent("log", news.position, json);
  }
  if (news.status != nullptr) {
    ASSIGN_OR_RETURN(const std::string json, news.status->Json());
    text += StreamEvent("status", news.position, json);
  }
  return text;
}

}  // namespace

absl::Status CheckPageAddress(const HostPort& listen, bool has_tls,
                              bool has_tokens) {
  if (has_tls && !has_tokens) {
    return absl::InvalidArgumentError(
        "--page_listen: with TLS the page asks for a token: give "
        "--access_file, too");
  }
  if (has_tls || IsLoopback(listen.host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--page_listen: other machines can reach ", listen.ToString(),
      ", and without TLS nobody is asked who they are: listen on 127.0.0.1 and "
      "reach it by ssh -L, or give --tls_cert_file, --tls_key_file and "
      "--access_file"));
}

struct PageServer::Impl {
  Impl(CoordinatorRuntime& shown, PageOptions given)
      : options(std::move(given)),
        runtime(shown),
        feed(shown, options.history_file),
        actions(shown, options.access.get()) {}

  // The server itself, without routes.
  [[nodiscard]] std::unique_ptr<HttpServer> MakeServer() const;
  void AddRoutes(httplib::Server& server);
  void AddLogin(httplib::Server& server);
  void AddActions(httplib::Server& server);
  void AddTraces(httplib::Server& server);

  [[nodiscard]] bool IsOwn(const std::string& host) const;
  [[nodiscard]] std::string AuthorizationOf(
      const httplib::Request& request) const;
  [[nodiscard]] PageCaller CallerOf(const httplib::Request& request) const;
  [[nodiscard]] absl::Status Admit(const std::string& authorization,
                                   const char* method = kMethod);
  // The answers of the workers to a request for a trace, and the request.
  [[nodiscard]] absl::StatusOr<
      std::pair<v1::GetTraceRequest, v1::GetTraceResponse>>
  TraceOf(const httplib::Request& request);
  void ServeStream(const httplib::Request& request, httplib::Response& answer);
  void ServeLog(const httplib::Request& request, httplib::Response& answer);

  PageOptions options;
  CoordinatorRuntime& runtime;
  PageFeed feed;
  PageActions actions;
  Logins logins;
  RefusalLog refusals;
  std::atomic<int> streams = 0;
  std::unique_ptr<RunningServer> server;  // the last member: it uses the others
};

namespace {

// A viewer's stream: one turn after another, on a thread of the server.
class Stream {
 public:
  Stream(PageFeed& feed, StreamPosition seen) : feed_(feed), seen_(seen) {}

  // Sends what is new, or a sign of life when one is due; false ends the stream.
  bool Turn(httplib::DataSink& sink) {
    const MonotonicTime now = Clock::Real().Now();
    const std::optional<PageNews> news =
        feed_.After(seen_, is_new_ ? now : now + kStreamTurn);
    std::string text = std::exchange(is_new_, false) ? "retry: 2000\n\n" : "";
    if (news.has_value()) {
      absl::StatusOr<std::string> told = StreamText(*news);
      if (!told.ok()) return false;
      text += *told;
      seen_ = news->position;
    }
    if (text.empty() && Clock::Real().Now() >= next_heartbeat_)
      text = ": still here\n\n";
    if (text.empty()) return sink.is_writable();
    next_heartbeat_ = Clock::Real().Now() + kHeartbeat;
    return sink.write(text.data(), text.size());
  }

 private:
  PageFeed& feed_;
  StreamPosition seen_;
  bool is_new_ = true;
  MonotonicTime next_heartbeat_;
};

}  // namespace

bool PageServer::Impl::IsOwn(const std::string& host) const {
  return IsOwnHost(host, options.listen.host) ||
         (options.tls != nullptr &&
          NamesHost(*options.tls, std::string(HostOf(host))));
}

std::string PageServer::Impl::AuthorizationOf(
    const httplib::Request& request) const {
  if (request.has_header("Authorization"))
    return request.get_header_value("Authorization");
  const std::string cookies = request.get_header_value("Cookie");
  return logins.Find(CookieValue(cookies, kCookie), Clock::Real().Now());
}

PageCaller PageServer::Impl::CallerOf(const httplib::Request& request) const {
  PageCaller caller;
  caller.credentials.authorization = AuthorizationOf(request);
  caller.address = request.remote_addr;
  return caller;
}

absl::Status PageServer::Impl::Admit(const std::string& authorization,
                                     const char* method) {
  if (options.access == nullptr) return absl::OkStatus();
  if (authorization.empty())
    return absl::UnauthenticatedError("sign in with a token first");
  Credentials credentials;
  credentials.authorization = authorization;
  const absl::Status status =
      options.access->Admit(credentials, method).status();
  if (!status.ok()) refusals.Add("page", status);
  return status;
}

void PageServer::Impl::ServeStream(const httplib::Request& request,
                                   httplib::Response& answer) {
  // The place is given up when the answer is over, however it ends.
  const std::shared_ptr<void> place(nullptr, [this](void*) { --streams; });
  if (++streams > options.max_streams) {
    return AnswerError(
        absl::ResourceExhaustedError(absl::StrCat(
            options.max_streams,
            " pages are fed live already, which is the most: this one asks "
            "every two seconds instead")),
        answer);
  }
  const auto seen =
      StreamPosition::Parse(request.get_header_value("Last-Event-ID"));
  const auto stream =
      std::make_shared<Stream>(feed, seen.value_or(StreamPosition()));
  answer.set_header("X-Accel-Buffering", "no");
  answer.set_chunked_content_provider(
      "text/event-stream",
      [this, place, stream, authorization = AuthorizationOf(request)](
          size_t, httplib::DataSink& sink) {
        return Admit(authorization).ok() && stream->Turn(sink);
      });
}

void PageServer::Impl::ServeLog(const httplib::Request& request,
                                httplib::Response& answer) {
  StreamPosition seen;
  if (request.has_param("after")) {
    const auto after = StreamPosition::Parse(request.get_param_value("after"));
    if (!after.has_value()) {
      return AnswerError(
          absl::InvalidArgumentError("after: not an id of the stream"), answer);
    }
    seen = *after;
  }
  const PageNews news = feed.Now(seen);
  answer.set_header("X-Last-Event-ID", news.position.ToString());
  Answer(ProtoToJson(news.events, {.is_indented = false, .has_defaults = true}),
         answer);
}

std::unique_ptr<HttpServer> PageServer::Impl::MakeServer() const {
  std::unique_ptr<HttpServer> made;
  if (options.tls == nullptr) {
    made = std::make_unique<HttpServer>();
  } else {
    made = std::make_unique<HttpServer>(
        [this](SSL_CTX& context) { ShowCertificate(*options.tls, context); });
  }
  const int threads = options.max_streams + kRequestThreads;
  made->new_task_queue = [threads] {
    return new BoundedPool(static_cast<size_t>(threads), kMaxQueued);
  };
  made->set_tcp_nodelay(true);
  made->set_read_timeout(kIdleSeconds);
  made->set_write_timeout(kIdleSeconds);
  made->set_payload_max_length(kMaxBodyBytes);
  httplib::Headers headers;
  for (const auto& [name, value] : SecurityHeaders())
    headers.emplace(std::string(name), std::string(value));
  made->set_default_headers(std::move(headers));
  return made;
}

void PageServer::Impl::AddLogin(httplib::Server& server) {
  server.Post("/api/login", [this](const httplib::Request& request,
                                   httplib::Response& answer) {
    if (options.access == nullptr) {
      return AnswerError(
          absl::FailedPreconditionError("nobody needs to sign in here"),
          answer);
    }
    const std::string authorization = absl::StrCat(
        "Bearer ", std::string(absl::StripAsciiWhitespace(request.body)));
    const absl::Status status = Admit(authorization);
    if (!status.ok()) return AnswerError(status, answer);
    answer.set_header(
        "Set-Cookie",
        absl::StrCat(kCookie, "=",
                     logins.Add(authorization, Clock::Real().Now()),
                     "; Path=/; Max-Age=", absl::ToInt64Seconds(kLoginTime),
                     "; Secure; HttpOnly; SameSite=Strict"));
    answer.status = 204;
  });
  server.Delete("/api/login", [this](const httplib::Request& request,
                                     httplib::Response& answer) {
    const std::string cookies = request.get_header_value("Cookie");
    logins.Remove(CookieValue(cookies, kCookie));
    answer.set_header("Set-Cookie",
                      absl::StrCat(kCookie,
                                   "=; Path=/; Max-Age=0; Secure; "
                                   "HttpOnly; SameSite=Strict"));
    answer.status = 204;
  });
}

void PageServer::Impl::AddActions(httplib::Server& server) {
  server.Get("/api/session", [this](const httplib::Request& request,
                                    httplib::Response& answer) {
    Answer(actions.SessionJson(CallerOf(request)), answer);
  });
  server.Post(
      R"(/api/actions/([a-z]+))",
      [this](const httplib::Request& request, httplib::Response& answer) {
        // A form of another page cannot send this type, and its scripts may not.
        if (request.get_header_value("Content-Type") != kJson) {
          return AnswerError(absl::InvalidArgumentError(
                                 "Content-Type must be application/json"),
                             answer);
        }
        const absl::Status status =
            actions.Do(request.matches[1], request.body, CallerOf(request));
        if (absl::IsPermissionDenied(status)) refusals.Add("page", status);
        if (!status.ok()) return AnswerError(status, answer);
        answer.status = 204;
      });
}

absl::StatusOr<std::pair<v1::GetTraceRequest, v1::GetTraceResponse>>
PageServer::Impl::TraceOf(const httplib::Request& request) {
  RETURN_IF_ERROR(Admit(AuthorizationOf(request), kTraceMethod));
  ASSIGN_OR_RETURN(
      v1::GetTraceRequest asked,
      ParseTraceQuery(request.matches[1], request.get_param_value("first_step"),
                      request.get_param_value("last_step")));
  ASSIGN_OR_RETURN(v1::GetTraceResponse told, AskForTrace(runtime, asked));
  return std::make_pair(std::move(asked), std::move(told));
}

void PageServer::Impl::AddTraces(httplib::Server& server) {
  server.Get(
      R"(/api/jobs/([^/]+)/trace)",
      [this](const httplib::Request& request, httplib::Response& answer) {
        auto trace = TraceOf(request);
        if (!trace.ok()) return AnswerError(trace.status(), answer);
        if (request.params.empty()) KeepNewestStep(trace->second);
        Answer(ProtoToJson(trace->second,
                           {.is_indented = false, .has_defaults = true}),
               answer);
      });
  server.Get(
      R"(/api/jobs/([^/]+)/trace\.json)",
      [this](const httplib::Request& request, httplib::Response& answer) {
        const auto trace = TraceOf(request);
        if (!trace.ok()) return AnswerError(trace.status(), answer);
        answer.set_header("Content-Disposition", "attachment");
        Answer(ChromeTrace(trace->first, trace->second), answer);
      });
}

void PageServer::Impl::AddRoutes(httplib::Server& server) {
  server.set_pre_routing_handler([this](const httplib::Request& request,
                                        httplib::Response& answer) {
    absl::Status status;
    const std::string host = request.get_header_value("Host");
    if (!IsOwn(host)) {
      status = absl::PermissionDeniedError(absl::StrCat(
          "this page is not that of the host in the request; its address is ",
          options.listen.ToString()));
    } else if (!IsSameOrigin(request.get_header_value("Origin"), host)) {
      status = absl::PermissionDeniedError(
          "another page may not ask this coordinator for anything");
    } else if (absl::StartsWith(request.path, "/api/")) {
      answer.set_header("Cache-Control", "no-store");
      if (request.path != "/api/login")
        status = Admit(AuthorizationOf(request));
    } else {
      answer.set_header("Cache-Control", "no-cache");
    }
    if (status.ok()) return httplib::Server::HandlerResponse::Unhandled;
    AnswerError(status, answer);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.set_error_handler(
      [](const httplib::Request&, httplib::Response& answer) {
        if (!answer.body.empty()) return;
        answer.set_content(answer.status == 404 ? "there is no such page\n"
                                                : "the request is not valid\n",
                           kText);
      });
  for (const PageFile& file : PageFiles()) {
    const std::string path = file.name == "index.html"
                                 ? "/"
                                 : absl::StrCat("/", std::string(file.name));
    server.Get(path,
               [file](const httplib::Request&, httplib::Response& answer) {
                 answer.set_content(file.content.data(), file.content.size(),
                                    std::string(ContentTypeOf(file.name)));
               });
  }
  server.Get("/api/state", [this](const httplib::Request&,
                                  httplib::Response& answer) {
    const auto status =
        feed.Status(Clock::Real().Now() + absl::Seconds(kIdleSeconds));
    Answer(status != nullptr
               ? status->Json()
               : absl::UnavailableError("the coordinator has not answered yet"),
           answer);
  });
  server.Get("/api/log",
             [this](const httplib::Request& request,
                    httplib::Response& answer) { ServeLog(request, answer); });
  server.Get("/api/events", [this](const httplib::Request& request,
                                   httplib::Response& answer) {
    ServeStream(request, answer);
  });
  server.Get(R"(/api/jobs/([^/]+))", [this](const httplib::Request& request,
                                            httplib::Response& answer) {
    Answer(feed.JobJson(request.matches[1]), answer);
  });
  AddLogin(server);
  AddActions(server);
  AddTraces(server);
}

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(
    CoordinatorRuntime& runtime, PageOptions options) {
  auto impl = std::make_unique<Impl>(runtime, std::move(options));
  std::unique_ptr<HttpServer> server = impl->MakeServer();
  impl->AddRoutes(*server);
  HostPort& listen = impl->options.listen;
  ASSIGN_OR_RETURN(const HostPort bound, Bind(listen, *server));
  listen.port = bound.port;
  impl->server = std::make_unique<RunningServer>(std::move(server), bound);
  return std::unique_ptr<PageServer>(new PageServer(std::move(impl)));
}

PageServer::PageServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

PageServer::~PageServer() { Stop(); }

void PageServer::Stop() {
  impl_->server->Stop();
  impl_->feed.Close();
}

const HostPort& PageServer::address() const { return impl_->options.listen; }

std::string PageServer::url() const {
  return absl::StrCat(impl_->options.tls == nullptr ? "http" : "https", "://",
                      address().ToString(), "/");
}

}  // namespace ringmaster::coordinator
