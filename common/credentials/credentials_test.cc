#include "common/credentials/credentials.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

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

class TlsTest : public testing::Test {
 protected:
  // Returns true if a client with the options `client` can call a server with
  // `server`.
  static bool CanConnect(const CredentialsOptions& server,
                         const CredentialsOptions& client) {
    auto server_credentials = MakeServerCredentials(server, kLocal);
    auto client_credentials = MakeChannelCredentials(client, kLocal);
    EXPECT_TRUE(server_credentials.ok()) << server_credentials.status();
    EXPECT_TRUE(client_credentials.ok()) << client_credentials.status();

    int port = 0;
    grpc::CallbackGenericService no_service;  // A server must have some.
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&no_service);
    builder.AddListeningPort(kLocal, *server_credentials, &port);
    const std::unique_ptr<grpc::Server> running = builder.BuildAndStart();
    if (running == nullptr) {
      ADD_FAILURE() << "the server does not start";
      return false;
    }
    const std::shared_ptr<grpc::Channel> channel = grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(port), *client_credentials);
    const bool is_ready = BecomesReady(*channel);
    running->Shutdown();
    return is_ready;
  }

  const std::string directory_ = testing::TempDir();
  const TestCertificates ours_{directory_, "ours"};
  const TestCertificates theirs_{directory_, "theirs"};
  const TestCertificates::Files server_ = ours_.Issue("server");
  const TestCertificates::Files worker_ = ours_.Issue("worker");
  const TestCertificates::Files stranger_ = theirs_.Issue("stranger");

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

TEST_F(TlsTest, AServerWithoutACaFileAsksForNoClientCertificate) {
  const CredentialsOptions server = {.tls_cert_file = server_.certificate,
                                     .tls_key_file = server_.key};
  EXPECT_TRUE(CanConnect(server, {.tls_ca_file = ours_.ca_file()}));
}

TEST_F(TlsTest, AClientRefusesAServerOfAnotherAuthority) {
  const CredentialsOptions server = {.tls_cert_file = stranger_.certificate,
                                     .tls_key_file = stranger_.key};
  EXPECT_FALSE(CanConnect(server, {.tls_ca_file = ours_.ca_file()}));
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
