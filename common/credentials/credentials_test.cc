#include "common/credentials/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "absl/time/clock.h"
#include "common/credentials/testing/test_certificates.h"
#include "common/logging/testing/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const char kRemote[] = "node-7:29400";
const char kLocal[] = "127.0.0.1:0";

// The messages of the server's and the client's refusal of `options`.
std::string ServerError(const CredentialsOptions& options,
                        const std::string& address = kRemote) {
  const absl::Status status = MakeServerCredentials(options, address).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}
std::string ClientError(const CredentialsOptions& options,
                        const std::string& address = kRemote) {
  const absl::Status status = MakeChannelCredentials(options, address).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string FileWith(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(CredentialsTest, ClearTextIsAllowedOnThisMachine) {
  for (const char* const address :
       {"127.0.0.1:29400", "[::1]:29400", "localhost:1", "unix:/run/x.sock"}) {
    EXPECT_TRUE(MakeServerCredentials({}, address).ok()) << address;
    EXPECT_TRUE(MakeChannelCredentials({}, address).ok()) << address;
  }
}

TEST(CredentialsTest, ClearTextElsewhereNeedsAFlagThatTheErrorNames) {
  EXPECT_EQ(ServerError({}, "0.0.0.0:29400"),
            "0.0.0.0:29400 is not a loopback address: give --tls_cert_file and "
            "--tls_key_file (and --tls_ca_file) for TLS, or --insecure to "
            "allow clear text");
  EXPECT_EQ(ClientError({}),
            "node-7:29400 is not a loopback address: give --tls_ca_file (and "
            "--tls_cert_file and --tls_key_file) for TLS, or --insecure to "
            "allow clear text");
  EXPECT_TRUE(MakeServerCredentials({.insecure = true}, kRemote).ok());
  EXPECT_TRUE(MakeChannelCredentials({.insecure = true}, kRemote).ok());
}

TEST(CredentialsTest, FlagsThatDoNotGoTogetherAreRefused) {
  EXPECT_THAT(ServerError({.tls_ca_file = "a", .insecure = true}),
              HasSubstr("--insecure contradicts"));
  EXPECT_THAT(ClientError({.tls_ca_file = "a", .insecure = true}, kLocal),
              HasSubstr("--insecure contradicts"));
  EXPECT_EQ(ServerError({.tls_ca_file = "a"}),
            "--tls_ca_file needs --tls_cert_file and --tls_key_file as well");
  EXPECT_EQ(ServerError({.tls_cert_file = "a"}),
            "--tls_cert_file needs --tls_key_file as well");
  EXPECT_EQ(ClientError({.tls_key_file = "a"}),
            "--tls_key_file needs --tls_cert_file as well");
}

// A server with the options `options`.
class Served {
 public:
  explicit Served(const CredentialsOptions& options) {
    auto credentials = MakeServerCredentials(options, kLocal);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    grpc::ServerBuilder builder;
    // A server must have some service.
    builder.RegisterCallbackGenericService(&no_service_);
    builder.AddListeningPort(kLocal, *credentials, &port_);
    running_ = builder.BuildAndStart();
    EXPECT_NE(running_, nullptr);
  }
  ~Served() {
    if (running_ != nullptr) running_->Shutdown();
  }

  // Returns true if a client with the options `client` can call it.
  bool Accepts(const CredentialsOptions& client) const {
    auto credentials = MakeChannelCredentials(client, kLocal);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return BecomesReady(*Connect(*credentials));
  }

  // A connection of its own.
  std::shared_ptr<grpc::Channel> Connect(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    grpc::ChannelArguments own_connection;
    own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_),
                                     credentials, own_connection);
  }

  // A channel is ready once the server's first frame has come, which the server
  // sends when it accepts the handshake.
  static bool BecomesReady(grpc::Channel& channel) {
    const auto deadline =
        std::chrono::system_clock::now() + std::chrono::seconds(30);
    grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    while (state != GRPC_CHANNEL_READY &&
           state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
      if (!channel.WaitForStateChange(state, deadline)) {
        ADD_FAILURE() << "no answer from the server, in state " << state;
        return false;
      }
      state = channel.GetState(/*try_to_connect=*/true);
    }
    return state == GRPC_CHANNEL_READY;
  }

 private:
  grpc::CallbackGenericService no_service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> running_;
};

class TlsTest : public testing::Test {
 protected:
  static bool CanConnect(const CredentialsOptions& server,
                         const CredentialsOptions& client) {
    return Served(server).Accepts(client);
  }

  const std::string directory_ = testing::TempDir();
  const TestCertificates ours_{directory_, "ours"};
  const TestCertificates theirs_{directory_, "theirs"};
  const TestCertificates::Files server_ = ours_.Issue("server");
  const TestCertificates::Files worker_ = ours_.Issue("worker");
  const TestCertificates::Files stranger_ = theirs_.Issue("stranger");
};

TEST_F(TlsTest, MutualTlsLetsInWhoHasACertificateOfTheSameAuthority) {
  const CredentialsOptions server = {.tls_ca_file = ours_.ca_file(),
                                     .tls_cert_file = server_.certificate,
                                     .tls_key_file = server_.key};
  EXPECT_TRUE(CanConnect(server, {.tls_ca_file = ours_.ca_file(),
                                  .tls_cert_file = worker_.certificate,
                                  .tls_key_file = worker_.key}));
  EXPECT_FALSE(CanConnect(server, {.tls_ca_file = ours_.ca_file()}));
  EXPECT_FALSE(CanConnect(server, {.tls_ca_file = ours_.ca_file(),
                                   .tls_cert_file = stranger_.certificate,
                                   .tls_key_file = stranger_.key}));
  EXPECT_FALSE(CanConnect(server, {}));  // Clear text to a TLS port.
}

TEST_F(TlsTest, AServerThatTakesTokensLetsInClientsWithoutACertificate) {
  CredentialsOptions server = {.tls_cert_file = server_.certificate,
                               .tls_key_file = server_.key,
                               .takes_tokens = true};
  EXPECT_TRUE(CanConnect(server, {.tls_ca_file = ours_.ca_file()}));
  server.tls_ca_file = ours_.ca_file();
  EXPECT_TRUE(CanConnect(server, {.tls_ca_file = ours_.ca_file()}));
  EXPECT_FALSE(CanConnect(server, {.tls_ca_file = ours_.ca_file(),
                                   .tls_cert_file = stranger_.certificate,
                                   .tls_key_file = stranger_.key}));
}

TEST_F(TlsTest, AServerThatCouldNotTellWhoCallsIsRefused) {
  EXPECT_THAT(ServerError({.tls_cert_file = server_.certificate,
                           .tls_key_file = server_.key}),
              AllOf(HasSubstr("would let in everybody"),
                    HasSubstr("--tls_ca_file"), HasSubstr("--access_file")));
}

TEST_F(TlsTest, AClientRefusesAServerOfAnotherAuthority) {
  const CredentialsOptions server = {.tls_cert_file = stranger_.certificate,
                                     .tls_key_file = stranger_.key,
                                     .takes_tokens = true};
  EXPECT_FALSE(CanConnect(server, {.tls_ca_file = ours_.ca_file()}));
}

TEST_F(TlsTest, ACertificateThatIsNotValidNowIsRefused) {
  const TestCertificates::Files expired =
      ours_.Issue("expired", {}, absl::Seconds(30));
  EXPECT_THAT(
      ClientError({.tls_ca_file = ours_.ca_file(),
                   .tls_cert_file = expired.certificate,
                   .tls_key_file = expired.key}),
      AllOf(HasSubstr(expired.certificate), HasSubstr("has expired on "),
            HasSubstr("issue another one")));
}

TEST_F(TlsTest, ATokenIsNeverSentInTheClearNorReadByOthers) {
  const std::string path = FileWith("token", "abc123\n");
  chmod(path.c_str(), 0600);
  EXPECT_THAT(ClientError({.token_file = path}, kLocal),
              HasSubstr("clear text"));
  const CredentialsOptions options = {.tls_ca_file = ours_.ca_file(),
                                      .token_file = path};
  EXPECT_TRUE(MakeChannelCredentials(options, kLocal).ok());
  chmod(path.c_str(), 0640);
  EXPECT_THAT(ClientError(options),
              AllOf(HasSubstr("--token_file=" + path),
                    HasSubstr("others can read it"), Not(HasSubstr("abc123"))));
  chmod(path.c_str(), 0600);
  std::ofstream(path) << "two words";
  EXPECT_EQ(ClientError(options), "--token_file=" + path + ": has no token");
  EXPECT_THAT(
      ClientError({.tls_ca_file = ours_.ca_file(), .token_file = "/no/token"}),
      HasSubstr("No such file"));
}

TEST_F(TlsTest, AMissingFileIsNamedWithItsFlag) {
  EXPECT_EQ(ClientError({.tls_ca_file = "/no/ca.pem"}),
            "--tls_ca_file=/no/ca.pem: No such file or directory");
  EXPECT_EQ(ClientError({.tls_ca_file = "/"}),
            "--tls_ca_file=/: Is a directory");
  EXPECT_THAT(ServerError({.tls_cert_file = directory_ + "/none.pem",
                           .tls_key_file = server_.key}),
              AllOf(HasSubstr("--tls_cert_file="), HasSubstr("No such file")));
  EXPECT_THAT(ServerError({.tls_cert_file = server_.certificate,
                           .tls_key_file = directory_ + "/none.key"}),
              AllOf(HasSubstr("--tls_key_file="), HasSubstr("No such file")));
}

TEST_F(TlsTest, AFileOfTheWrongKindIsNamedWithItsFlag) {
  const std::string text = FileWith("text.pem", "not PEM\n");
  const std::string empty = FileWith("empty.pem", "");
  EXPECT_EQ(ClientError({.tls_ca_file = text}),
            "--tls_ca_file=" + text + ": is not a certificate in PEM");
  EXPECT_EQ(ClientError({.tls_ca_file = empty}),
            "--tls_ca_file=" + empty + ": is empty");
  EXPECT_EQ(ServerError({.tls_cert_file = text, .tls_key_file = server_.key}),
            "--tls_cert_file=" + text + ": is not a certificate in PEM");
  EXPECT_EQ(ServerError({.tls_cert_file = empty, .tls_key_file = server_.key}),
            "--tls_cert_file=" + empty + ": is empty");
  EXPECT_EQ(
      ServerError({.tls_cert_file = server_.certificate, .tls_key_file = text}),
      "--tls_key_file=" + text +
          ": is not a private key in PEM without a password");
}

TEST_F(TlsTest, AKeyOfAnotherCertificateIsRefused) {
  EXPECT_EQ(ServerError({.tls_cert_file = server_.certificate,
                         .tls_key_file = worker_.key}),
            "--tls_key_file=" + worker_.key +
                ": does not belong to --tls_cert_file=" + server_.certificate);
}

// ---- Files that are replaced while they are in use.

class RenewalTest : public testing::Test {
 protected:
  RenewalTest() {
    Use("server", ours_.Issue("s1"));
    Use("worker", ours_.Issue("w1"));
    WriteWhole(OptionsOf("server").tls_ca_file, TextOf(ours_.ca_file()));
    WriteWhole(OptionsOf("worker").tls_ca_file, TextOf(ours_.ca_file()));
    server_.emplace(OptionsOf("server"));
    auto credentials = MakeChannelCredentials(OptionsOf("worker"), kLocal);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    worker_ = *credentials;
  }

  CredentialsOptions OptionsOf(const std::string& who) const {
    return {.tls_ca_file = directory_ + "/" + who + "-ca.pem",
            .tls_cert_file = directory_ + "/" + who + ".pem",
            .tls_key_file = directory_ + "/" + who + ".key"};
  }

  static std::string TextOf(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  // The key first, as cert-manager's and `ringctl pki`'s files become.
  void Use(const std::string& who, const TestCertificates::Files& files) const {
    WriteWhole(OptionsOf(who).tls_key_file, TextOf(files.key));
    WriteWhole(OptionsOf(who).tls_cert_file, TextOf(files.certificate));
  }

  static void WriteWhole(const std::string& path, const std::string& text) {
    std::ofstream(path + ".new") << text;
    std::rename((path + ".new").c_str(), path.c_str());
  }

  // The name in the certificate that the server shows to a new connection of the
  // worker's; "" if one of them refuses the other.
  std::string ServerShows() const {
    const auto channel = server_->Connect(worker_);
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    grpc::CompletionQueue queue;
    const grpc::Slice nothing("");
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call =
        stub.PrepareUnaryCall(&context, "/no/Service", request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    // The server has no method, so it says so to whom it has let in.
    if (status.error_code() != grpc::StatusCode::UNIMPLEMENTED) return "";
    const auto names =
        context.auth_context()->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    return names.empty() ? "?" : std::string(names[0].data(), names[0].size());
  }

  // Asks until the server shows `name`, or for ten seconds.
  std::string AwaitServerShows(const std::string& name) const {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    std::string shown = ServerShows();
    while (shown != name && absl::Now() < deadline) shown = ServerShows();
    return shown;
  }

  const std::string directory_ = testing::TempDir();
  const TestCertificates ours_{directory_, "renewed-ours"};
  const TestCertificates theirs_{directory_, "renewed-theirs"};
  std::optional<Served> server_;
  std::shared_ptr<grpc::ChannelCredentials> worker_;
};

TEST_F(RenewalTest, NewConnectionsUseTheNewCertificateAndOpenOnesGoOn) {
  const auto open = server_->Connect(worker_);
  ASSERT_EQ(open->GetState(true), GRPC_CHANNEL_IDLE);
  ASSERT_EQ(ServerShows(), "s1");
  ASSERT_TRUE(Served::BecomesReady(*open));
  Use("server", ours_.Issue("s2"));
  EXPECT_EQ(AwaitServerShows("s2"), "s2");
  EXPECT_EQ(open->GetState(false), GRPC_CHANNEL_READY);
}

TEST_F(RenewalTest, FilesThatDoNotCheckOutChangeNothing) {
  const CredentialsOptions files = OptionsOf("server");
  const TestCertificates::Files next = ours_.Issue("s2");
  const std::string pem = TextOf(next.certificate);
  LogCapture log;
  const auto expect_refused = [&](const std::string& why) {
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (!log.Contains(why) && absl::Now() < deadline)
      EXPECT_EQ(ServerShows(), "s1");
    EXPECT_TRUE(log.Contains(why)) << why;
    EXPECT_EQ(ServerShows(), "s1");
  };
  std::ofstream(files.tls_cert_file) << pem.substr(0, pem.size() / 2);
  expect_refused("is not a certificate in PEM");
  std::ofstream(files.tls_cert_file) << "";
  expect_refused("is empty");
  std::ofstream(files.tls_cert_file) << pem;
  expect_refused("does not belong to");
  Use("server", ours_.Issue("expired", {}, absl::Seconds(30)));
  expect_refused("has expired on");
  Use("server", next);
  EXPECT_EQ(AwaitServerShows("s2"), "s2");
}

// Everybody gets the new authority beside the old one, then new certificates, and then
// loses the old one.
TEST_F(RenewalTest, AnAuthorityIsReplacedWhileBothSidesRun) {
  const auto trust = [this](const std::string& who, const std::string& text) {
    WriteWhole(OptionsOf(who).tls_ca_file, text);
  };
  const std::string both = TextOf(ours_.ca_file()) + TextOf(theirs_.ca_file());
  trust("server", both);
  trust("worker", both);
  Use("server", theirs_.Issue("s2"));
  EXPECT_EQ(AwaitServerShows("s2"), "s2");
  Use("worker", theirs_.Issue("w2"));
  trust("server", TextOf(theirs_.ca_file()));
  trust("worker", TextOf(theirs_.ca_file()));
  Use("server", theirs_.Issue("s3"));
  EXPECT_EQ(AwaitServerShows("s3"), "s3");
  // The old authority's certificates are refused now.
  EXPECT_FALSE(server_->Accepts({.tls_ca_file = theirs_.ca_file(),
                                 .tls_cert_file = ours_.Issue("w3").certificate,
                                 .tls_key_file = ours_.Issue("w3").key}));
}

}  // namespace
}  // namespace ringmaster
