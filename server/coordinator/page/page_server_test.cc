#include "server/coordinator/page/page_server.h"

#include <httplib.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/credentials/testing/test_certificates.h"
#include "common/credentials/tls_watch.h"
#include "common/sync/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator/page/request_rules.h"
#include "server/coordinator/page/testing/test_coordinator.h"
#include "server/coordinator/rpc/runtime.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr absl::Duration kPatience = absl::Seconds(40);

class PageServerTest : public ::testing::Test {
 protected:
  PageServerTest() { StartCoordinator(); }
  ~PageServerTest() override { page_.reset(); }

  // A new one, and its page.
  void StartCoordinator() {
    page_.reset();
    coordinator_.reset();
    coordinator_ = std::make_unique<TestCoordinator>();
    page_ = StartPage({});
    client_ = NewClient();
  }

  std::unique_ptr<PageServer> StartPage(PageOptions options) {
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.max_streams = 2;
    auto page = PageServer::Start(coordinator_->runtime(), std::move(options));
    EXPECT_TRUE(page.ok()) << page.status();
    return *std::move(page);
  }

  std::unique_ptr<httplib::Client> NewClient() const {
    auto client =
        std::make_unique<httplib::Client>("127.0.0.1", page_->address().port);
    client->set_read_timeout(40);
    return client;
  }

  // Reads a stream until `is_enough` of all its text; fails once it has lasted
  // for longer than any machine needs.
  std::string ReadStream(
      const httplib::Headers& headers,
      const std::function<bool(const std::string&)>& is_enough) {
    std::string text;
    const MonotonicTime deadline = Clock::Real().Now() + kPatience;
    NewClient()->Get("/api/events", headers,
                     [&](const char* data, size_t size) {
                       text.append(data, size);
                       if (is_enough(text)) return false;
                       return Clock::Real().Now() < deadline;
                     });
    EXPECT_TRUE(is_enough(text)) << text;
    return text;
  }

  std::unique_ptr<TestCoordinator> coordinator_;
  std::unique_ptr<PageServer> page_;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(PageServerTest, ServesItsFilesWithStrictHeaders) {
  for (const auto& [path, type] :
       std::vector<std::pair<const char*, const char*>>{
           {"/", "text/html"},
           {"/main.js", "text/javascript"},
           {"/chart.min.js", "text/javascript"},
           {"/page.css", "text/css"},
           {"/icon.svg", "image/svg+xml"}}) {
    const httplib::Result answer = client_->Get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 200) << path;
    EXPECT_THAT(answer->get_header_value("Content-Type"), HasSubstr(type));
    for (const auto& [name, value] : SecurityHeaders()) {
      EXPECT_EQ(answer->get_header_value(std::string(name).c_str()), value)
          << path;
    }
  }
}

// The policy would not let the browser do what these do.
TEST_F(PageServerTest, TheDocumentHasNothingInlineAndNothingFromElsewhere) {
  const std::string html = client_->Get("/")->body;
  EXPECT_THAT(html, HasSubstr("<html lang=\"en\">"));
  for (const char* forbidden :
       {"<style", "style=", "onclick=", "http:", "https:"})
    EXPECT_EQ(html.find(forbidden), std::string::npos) << forbidden;
}

TEST_F(PageServerTest, OtherPathsAndHostsGetOneLine) {
  const httplib::Result missing = client_->Get("/nothing");
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(missing->body, "there is no such page\n");
  const httplib::Result rebound =
      client_->Get("/api/state", {{"Host", "evil.example"}});
  EXPECT_EQ(rebound->status, 403);
  EXPECT_THAT(rebound->body, HasSubstr("not that of the host"));
  EXPECT_EQ(client_->Get("/", {{"Host", "localhost:8080"}})->status, 200);
  EXPECT_EQ(client_->Post("/api/state", "", "text/plain")->status, 404);
  EXPECT_EQ(client_->Post("/api/login", "token", "text/plain")->body,
            "nobody needs to sign in here\n");
}

TEST_F(PageServerTest, TellsTheStateAndAJobThatWaits) {
  const std::string id = coordinator_->Submit();
  Json state;
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  do {  // it is told within one look
    ASSERT_LT(Clock::Real().Now(), deadline);
    state = Json::parse(client_->Get("/api/state")->body);
  } while (state["jobs"].empty());
  EXPECT_EQ(state["jobs"][0]["id"], id);
  EXPECT_EQ(state["coordinator"]["version"], "test");
  const httplib::Result answer = client_->Get(absl::StrCat("/api/jobs/", id));
  EXPECT_EQ(answer->get_header_value("Cache-Control"), "no-store");
  const Json job = Json::parse(answer->body);
  EXPECT_EQ(job["job"]["id"], id);
  EXPECT_FALSE(job["explain"]["summary"].get<std::string>().empty());
  EXPECT_TRUE(job["curves"]["loss"].empty());
}

TEST_F(PageServerTest, AJobWithoutMembersHasNoTrace) {
  const std::string path =
      absl::StrCat("/api/jobs/", coordinator_->Submit(), "/trace");
  EXPECT_TRUE(Json::parse(client_->Get(path.c_str())->body)["ranks"].empty());
  const httplib::Result file = client_->Get((path + ".json").c_str());
  EXPECT_EQ(file->status, 400);
  EXPECT_THAT(file->body, HasSubstr("only a job that runs can be traced"));
  EXPECT_THAT(client_->Get((path + "?first_step=x").c_str())->body,
              HasSubstr("first_step is not a step: x"));
  EXPECT_THAT(
      client_->Get((path + "?first_step=3&last_step=2").c_str())->body,
      HasSubstr("last_step must be 0 or at least first_step (3), got 2"));
  EXPECT_EQ(client_->Get("/api/jobs/gone-7/trace")->status, 404);
}

TEST_F(PageServerTest, DoesWhatItIsAskedTo) {
  EXPECT_EQ(Json::parse(client_->Get("/api/session")->body),
            Json::parse(R"({"name": "", "may": ["cancel", "change", "cordon",
                                                "uncordon"]})"));
  const std::string id = coordinator_->Submit();
  const auto ask = [&](const char* action, const Json& request) {
    return client_->Post((std::string("/api/actions/") + action).c_str(),
                         request.dump(), "application/json");
  };
  EXPECT_EQ(ask("change", {{"job", id}, {"priority", 3}})->status, 204);
  const Json job =
      Json::parse(client_->Get(absl::StrCat("/api/jobs/", id))->body)["job"];
  EXPECT_EQ(job["priority"], 3);
  EXPECT_EQ(ask("cancel", {{"job", id}, {"reason", "seen enough"}})->status,
            204);
  const httplib::Result again = ask("cancel", {{"job", id}});
  EXPECT_EQ(again->status, 400);
  EXPECT_THAT(again->body, HasSubstr(id));
  EXPECT_EQ(ask("cordon", {{"target", "w0"}, {"drain", true}})->status, 404);
}

TEST_F(PageServerTest, RefusesWhatCannotBeARequestOfItsOwnPage) {
  const char* const path = "/api/actions/cancel";
  EXPECT_THAT(client_->Post(path, R"({"job": "x"})", "text/plain")->body,
              HasSubstr("Content-Type must be application/json"));
  EXPECT_THAT(client_->Post(path, R"({"jobb": "x"})", "application/json")->body,
              HasSubstr("the request is not a CancelJobRequest in JSON"));
  EXPECT_EQ(
      client_->Post("/api/actions/format", "{}", "application/json")->status,
      404);
  const httplib::Result foreign =
      client_->Post(path, {{"Origin", "http://elsewhere.example"}},
                    R"({"job": "x"})", "application/json");
  EXPECT_EQ(foreign->status, 403);
  EXPECT_THAT(foreign->body, HasSubstr("another page may not"));
}

TEST_F(PageServerTest, AJobThatIsGoneIsOneLine) {
  const httplib::Result answer = client_->Get("/api/jobs/gone-7");
  EXPECT_EQ(answer->status, 404);
  EXPECT_THAT(answer->body, HasSubstr("gone-7"));
}

TEST_F(PageServerTest, AStreamGoesOnAfterTheLastEvent) {
  const std::string id = coordinator_->Submit();
  const std::string first = ReadStream({}, [&](const std::string& text) {
    return absl::StrContains(text, "event: status") &&
           absl::StrContains(text, "job.submitted") &&
           absl::EndsWith(text, "\n\n");
  });
  EXPECT_THAT(first, HasSubstr("retry: 2000\n\n"));
  const size_t at = first.rfind("id: ") + 4;
  const std::string last = first.substr(at, first.find('\n', at) - at);
  const std::string second =
      ReadStream({{"Last-Event-ID", last}}, [&](const std::string& text) {
        return absl::StrContains(text, "event: status");
      });
  EXPECT_EQ(second.find("job.submitted"), std::string::npos) << second;
  const httplib::Result log =
      client_->Get(absl::StrCat("/api/log?after=", last).c_str());
  EXPECT_TRUE(Json::parse(log->body)["events"].empty());
  EXPECT_EQ(client_->Get("/api/log?after=x")->status, 400);
}

// Each process counts its events from 1.
TEST_F(PageServerTest, AViewerOfTheLastCoordinatorGetsAllOfTheNextOne) {
  const std::string first = coordinator_->Submit();
  const std::string text = ReadStream({}, [&](const std::string& told) {
    return absl::StrContains(told, "job.submitted") &&
           absl::EndsWith(told, "\n\n");
  });
  const size_t at = text.rfind("id: ") + 4;
  const std::string last = text.substr(at, text.find('\n', at) - at);
  StartCoordinator();
  // Its log may be empty yet, but not the other one's.
  const std::string incarnation =
      absl::StrCat(coordinator_->runtime().identity().incarnation);
  const httplib::Result log =
      client_->Get(absl::StrCat("/api/log?after=", last).c_str());
  EXPECT_EQ(Json::parse(log->body)["coordinator_incarnation"], incarnation);
  EXPECT_EQ(coordinator_->Submit(), first);
  const std::string again =
      ReadStream({{"Last-Event-ID", last}}, [](const std::string& told) {
        return absl::StrContains(told, "job.submitted") &&
               absl::EndsWith(told, "\n\n");
      });
  EXPECT_THAT(again, HasSubstr("job.submitted"));
  EXPECT_THAT(again, HasSubstr(absl::StrCat("id: ", incarnation, "-")));
}

TEST_F(PageServerTest, OneViewerTooManyIsToldTheLimit) {
  Mutex mutex;
  CondVar opened;
  int open = 0;
  std::atomic<bool> is_over = false;
  std::vector<std::thread> viewers;
  for (int i = 0; i < 2; ++i) {
    viewers.emplace_back([&] {
      bool is_counted = false;
      ReadStream({}, [&](const std::string&) {
        if (!std::exchange(is_counted, true)) {
          MutexLock lock(mutex);
          ++open;
          opened.NotifyAll();
        }
        return is_over.load();
      });
    });
  }
  {
    MutexLock lock(mutex);
    const MonotonicTime deadline = Clock::Real().Now() + kPatience;
    while (open < 2 && opened.WaitUntil(mutex, Clock::Real(), deadline)) {
    }
    EXPECT_EQ(open, 2);
  }
  const httplib::Result refused = client_->Get("/api/events");
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->body,
            "2 pages are fed live already, which is the most: this one asks "
            "every two seconds instead\n");
  // Other requests are served meanwhile.
  EXPECT_EQ(client_->Get("/api/state")->status, 200);
  is_over = true;
  page_.reset();  // ends the streams, however long they would have been
  for (std::thread& viewer : viewers) viewer.join();
}

// The leaf and those that signed it, as ACME's clients write them.
TEST_F(PageServerTest, ShowsACertificateWithItsChain) {
  const std::string directory = std::getenv("TEST_TMPDIR");
  const TestCertificates authority(directory, "page");
  const TestCertificates::Files own = authority.Issue("page");
  std::ofstream(own.certificate, std::ios::app)
      << std::ifstream(authority.ca_file()).rdbuf();
  auto tls = FollowTlsFiles({.tls_cert_file = own.certificate,
                             .tls_key_file = own.key,
                             .takes_tokens = true});
  ASSERT_TRUE(tls.ok()) << tls.status();
  PageOptions options;
  options.tls = *std::move(tls);
  const auto page = StartPage(std::move(options));
  for (const char* path : {"/", "/api/state"}) {
    httplib::SSLClient client("127.0.0.1", page->address().port);
    client.set_ca_cert_path(authority.ca_file().c_str());
    const httplib::Result answer = client.Get(path);
    ASSERT_TRUE(answer) << path << ": " << to_string(answer.error());
    EXPECT_EQ(answer->status, 200) << path;
  }
}

TEST_F(PageServerTest, APortThatIsTakenIsOneLine) {
  const auto second =
      PageServer::Start(coordinator_->runtime(), {.listen = page_->address()});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("cannot listen on 127.0.0.1:"));
}

TEST(CheckPageAddress, ClearTextStaysOnLoopback) {
  EXPECT_TRUE(CheckPageAddress({"127.0.0.1", 80}, false, false).ok());
  EXPECT_TRUE(CheckPageAddress({"::1", 80}, false, false).ok());
  const absl::Status open = CheckPageAddress({"0.0.0.0", 80}, false, false);
  EXPECT_EQ(open.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(open.message()), HasSubstr("ssh -L"));
}

TEST(CheckPageAddress, TlsNeedsTokens) {
  EXPECT_TRUE(CheckPageAddress({"0.0.0.0", 80}, true, true).ok());
  EXPECT_THAT(
      std::string(CheckPageAddress({"127.0.0.1", 80}, true, false).message()),
      HasSubstr("--access_file"));
}

}  // namespace
}  // namespace ringmaster::coordinator
