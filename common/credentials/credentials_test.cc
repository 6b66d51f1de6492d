#include "common/credentials/credentials.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>

#include "common/credentials/testing/test_certificates.h"
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
    grpc::ChannelArguments own_connection;
    own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return BecomesReady(*grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(port_), *credentials, own_connection));
  }

 private:
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

}  // namespace
}  // namespace ringmaster
