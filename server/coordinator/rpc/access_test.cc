// Who is let in to what: each method of the coordinator x no, expired, foreign,
// wrong and right credentials; and whether a session can be taken over.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/access/access_control.h"
#include "common/credentials/credentials.h"
#include "common/credentials/peer_trust.h"
#include "common/credentials/testing/test_certificates.h"
#include "common/logging/testing/log_capture.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/secrets/digest.h"
#include "common/secrets/random.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/access/method_roles.h"
#include "server/coordinator/rpc/testing/test_server.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr Role kRoles[] = {Role::kViewer, Role::kSubmitter, Role::kOperator,
                           Role::kWorker, Role::kServer};

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Adds a token, whether or not the connection would let gRPC's own do so.
class Token final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit Token(std::string token) : token_(std::move(token)) {}
  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<grpc::string, grpc::string>* metadata) override {
    metadata->emplace("authorization", "Bearer " + token_);
    return grpc::Status::OK;
  }

 private:
  const std::string token_;
};

std::string TokenOf(Role role) {
  return absl::StrCat("token-of-", std::string(NameOf(role)));
}

AccessRules TokensOfAllRoles() {
  std::string yaml = "tokens:\n";
  const auto add = [&](const std::string& name, std::string_view role,
                       const std::string& token, bool is_revoked) {
    absl::StrAppend(&yaml, "  - {name: ", name, ", role: ", std::string(role),
                    ", revoked: ", is_revoked ? "true" : "false",
                    ", sha256: ", absl::BytesToHexString(Sha256(token)), "}\n");
  };
  for (const Role role : kRoles) {
    add(absl::StrCat("t-", std::string(NameOf(role))), NameOf(role),
        TokenOf(role), false);
  }
  add("bob", "operator", "revoked-token", true);
  return *AccessRules::Parse(yaml, "access.yaml");
}

// A coordinator that takes certificates and tokens.
class AccessTest : public ::testing::Test {
 protected:
  AccessTest() {
    auto runtime = CoordinatorRuntime::Start(
        {.config = Config::FromFailureBudget(absl::Minutes(1)),
         .state_dir = directory_ + "/state"});
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
    const TestCertificates::Files files = ours_.Issue("head");
    const auto credentials =
        MakeServerCredentials({.tls_ca_file = ours_.ca_file(),
                               .tls_cert_file = files.certificate,
                               .tls_key_file = files.key,
                               .takes_tokens = true},
                              "127.0.0.1:0");
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    auto server = CoordinatorServer::Start(
        *runtime_, {.host = "127.0.0.1", .port = 0}, *credentials, access_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  ~AccessTest() override {
    runtime_->Shutdown();
    server_.reset();
    runtime_.reset();
    std::filesystem::remove_all(directory_);
  }

  // A connection with that certificate; none without one.
  std::shared_ptr<grpc::Channel> Connect(
      const TestCertificates::Files* files = nullptr,
      const std::string& token = "") const {
    return MakeChannel(server_->address().ToString(),
                       CredentialsOf(files, token),
                       {.has_own_connection = true});
  }

  std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
      const TestCertificates::Files* files, const std::string& token) const {
    grpc::SslCredentialsOptions ssl;
    ssl.pem_root_certs = TextOf(ours_.ca_file());
    if (files != nullptr) {
      ssl.pem_private_key = TextOf(files->key);
      ssl.pem_cert_chain = TextOf(files->certificate);
    }
    std::shared_ptr<grpc::ChannelCredentials> credentials =
        grpc::SslCredentials(ssl);
    if (!token.empty()) {
      credentials = grpc::CompositeChannelCredentials(
          credentials,
          grpc::MetadataCredentialsFromPlugin(std::make_unique<Token>(token)));
    }
    return credentials;
  }

  std::shared_ptr<grpc::Channel> ConnectAs(Role role) const {
    const std::string name(NameOf(role));
    const TestCertificates::Files files =
        ours_.Issue(absl::StrCat("c-", name), {name});
    return Connect(&files);
  }

  // Calls `method` with an empty message. OK if it was answered, whatever with;
  // else the status with which the call ended.
  static absl::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                           std::string_view method) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(TestDeadline());
    grpc::CompletionQueue queue;
    const auto await = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      EXPECT_TRUE(queue.Next(&tag, &ok));
      return ok;
    };
    const auto stream = stub.PrepareCall(&context, std::string(method), &queue);
    stream->StartCall(nullptr);
    if (await()) {
      grpc::ByteBuffer message;
      const grpc::Slice nothing("");
      message = grpc::ByteBuffer(&nothing, 1);
      stream->WriteLast(message, grpc::WriteOptions(), nullptr);
      (void)await();
    }
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    const bool is_answered = await();
    if (is_answered) context.TryCancel();
    grpc::Status status;
    stream->Finish(&status, nullptr);
    (void)await();
    return is_answered ? absl::OkStatus() : FromGrpcStatus(status);
  }

  const std::string directory_ = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const bool is_made_ = std::filesystem::create_directories(directory_);
  const TestCertificates ours_{directory_, "ours"};
  const std::shared_ptr<AccessControl> access_ =
      std::make_shared<AccessControl>(MethodTable(), TokensOfAllRoles());
  std::unique_ptr<CoordinatorRuntime> runtime_;
  std::unique_ptr<CoordinatorServer> server_;
};

TEST_F(AccessTest, EveryMethodTakesItsRolesAndNoOther) {
  for (const Role role : kRoles) {
    for (const bool has_token : {false, true}) {
      const std::shared_ptr<grpc::Channel> channel =
          has_token ? Connect(nullptr, TokenOf(role)) : ConnectAs(role);
      for (const MethodRoles& row : MethodTable()) {
        const absl::Status status = Call(channel, row.method);
        EXPECT_FALSE(absl::IsUnauthenticated(status)) << status;
        EXPECT_EQ(!absl::IsPermissionDenied(status), row.roles.Has(role))
            << row.method << " as " << NameOf(role)
            << (has_token ? " with a token: " : ": ") << status;
      }
    }
  }
}

TEST_F(AccessTest, NobodyElseCallsAnything) {
  const TestCertificates theirs(directory_, "theirs");
  const TestCertificates::Files foreign = theirs.Issue("x", {"operator"});
  const TestCertificates::Files expired =
      ours_.Issue("expired", {"operator"}, absl::Seconds(30));
  const TestCertificates::Files no_role = ours_.Issue("no-role");
  const TestCertificates::Files odd_role = ours_.Issue("odd", {"root"});
  struct Case {
    std::string name;
    std::shared_ptr<grpc::Channel> channel;
    absl::StatusCode code;
    std::string message;
  };
  const absl::StatusCode kUnauthenticated = absl::StatusCode::kUnauthenticated;
  const Case cases[] = {
      {"nothing", Connect(), kUnauthenticated, "neither a certificate nor"},
      // These do not get as far as a call.
      {"foreign", Connect(&foreign), absl::StatusCode::kUnavailable, ""},
      {"expired", Connect(&expired), absl::StatusCode::kUnavailable, ""},
      {"no role", Connect(&no_role), kUnauthenticated,
       "CN=no-role has no role"},
      {"odd role", Connect(&odd_role), kUnauthenticated,
       "no role that there is"},
      {"unknown token", Connect(nullptr, "guess"), kUnauthenticated,
       "is not in the coordinator's --access_file"},
      {"revoked token", Connect(nullptr, "revoked-token"), kUnauthenticated,
       "the token of bob was revoked"}};
  for (const Case& each : cases) {
    for (const MethodRoles& row : MethodTable()) {
      const absl::Status status = Call(each.channel, row.method);
      EXPECT_EQ(status.code(), each.code)
          << each.name << ": " << row.method << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(each.message));
    }
  }
}

TEST_F(AccessTest, AMethodThatIsNotInTheTableIsNobodys) {
  EXPECT_TRUE(absl::IsPermissionDenied(
      Call(ConnectAs(Role::kOperator), "/ringmaster.v1.JobService/DropAll")));
}

TEST_F(AccessTest, ATokenThatIsRevokedIsRefusedAtTheNextCall) {
  constexpr char kStatus[] = "/ringmaster.v1.StatusService/GetStatus";
  const auto channel = Connect(nullptr, TokenOf(Role::kViewer));
  ASSERT_TRUE(Call(channel, kStatus).ok());
  access_->Replace(AccessRules());
  EXPECT_TRUE(absl::IsUnauthenticated(Call(channel, kStatus)));
}

TEST_F(AccessTest, OpenCallsEndWithTheRightsOfTheirCallers) {
  TestWorker worker(Connect(nullptr, TokenOf(Role::kWorker)), "w0");
  TestWorker other(ConnectAs(Role::kWorker), "w1");
  ASSERT_TRUE(worker.Join());
  ASSERT_TRUE(other.Join());
  const auto status =
      v1::StatusService::NewStub(Connect(nullptr, TokenOf(Role::kViewer)));
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  const auto watch = status->WatchStatus(&context, {});
  v1::WatchStatusResponse seen;
  ASSERT_TRUE(watch->Read(&seen));
  LogCapture log;
  access_->Replace(AccessRules());
  server_->EndRefusedCalls();
  const absl::Status end = FromGrpcStatus(worker.End());
  EXPECT_TRUE(absl::IsUnauthenticated(end));
  EXPECT_EQ(end.message(),
            "the token is not in the coordinator's --access_file");
  EXPECT_EQ(ReasonOf(end), reason::kUnauthenticated);
  while (watch->Read(&seen)) {
  }
  EXPECT_TRUE(absl::IsUnauthenticated(FromGrpcStatus(watch->Finish())));
  EXPECT_TRUE(log.Contains(
      "access.ended method=/ringmaster.v1.CoordinatorService/Session"));
  EXPECT_TRUE(log.Contains(
      "access.ended method=/ringmaster.v1.StatusService/WatchStatus"));
  // Certificates that name their role need no file.
  other.HangUp();
  EXPECT_FALSE(absl::IsUnauthenticated(FromGrpcStatus(other.End())));
}

TEST_F(AccessTest, ASessionEndsIfItsRoleIsTakenAway) {
  TestWorker worker(Connect(nullptr, TokenOf(Role::kWorker)), "w0");
  ASSERT_TRUE(worker.Join());
  access_->Replace(*AccessRules::Parse(
      absl::StrCat("tokens: [{name: t-worker, role: server, sha256: ",
                   absl::BytesToHexString(Sha256(TokenOf(Role::kWorker))),
                   "}]"),
      "access.yaml"));
  server_->EndRefusedCalls();
  const absl::Status end = FromGrpcStatus(worker.End());
  EXPECT_TRUE(absl::IsPermissionDenied(end));
  EXPECT_EQ(end.message(),
            "t-worker (server) may not join as a worker, which takes the role "
            "worker");
}

// What an authority that was removed let in, goes.
TEST_F(AccessTest, CallsEndWithTheAuthorityOfTheirCallers) {
  const TestCertificates old(directory_, "old");
  const TestCertificates::Files own = ours_.Issue("second");
  const std::string ca_file = directory_ + "/both.pem";
  std::ofstream(ca_file) << TextOf(ours_.ca_file()) << TextOf(old.ca_file());
  const CredentialsOptions options = {.tls_ca_file = ca_file,
                                      .tls_cert_file = own.certificate,
                                      .tls_key_file = own.key,
                                      .takes_tokens = true};
  const auto credentials = MakeServerCredentials(options, "127.0.0.1:0");
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  const auto watch = FollowTlsFiles(options);
  ASSERT_TRUE(watch.ok()) << watch.status();
  const auto access =
      std::make_shared<AccessControl>(MethodTable(), TokensOfAllRoles(), "",
                                      std::make_shared<PeerTrust>(*watch));
  server_ = *CoordinatorServer::Start(
      *runtime_, {.host = "127.0.0.1", .port = 0}, *credentials, access);

  const TestCertificates::Files files = old.Issue("w0", {"worker"});
  const auto channel = Connect(&files);
  TestWorker worker(channel, "w0");
  // Its token counts for nothing without the connection.
  const TestCertificates::Files viewer = old.Issue("v", {});
  const auto with_token = Connect(&viewer, TokenOf(Role::kViewer));
  TestWorker other(ConnectAs(Role::kWorker), "w1");
  ASSERT_TRUE(worker.Join());
  ASSERT_TRUE(other.Join());
  constexpr char kStatus[] = "/ringmaster.v1.StatusService/GetStatus";
  ASSERT_TRUE(Call(with_token, kStatus).ok());

  LogCapture log;
  std::ofstream(ca_file) << TextOf(ours_.ca_file());
  // The same connection, which stays open, is refused within seconds.
  absl::Status refused;
  const auto deadline = TestDeadline();
  while (std::chrono::system_clock::now() < deadline && refused.ok())
    refused = Call(with_token, kStatus);
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_EQ(refused.message(),
            "the authority that signed the certificate of CN=v is not in "
            "--tls_ca_file any more: connect again with another certificate");
  server_->EndRefusedCalls();
  const absl::Status end = FromGrpcStatus(worker.End());
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
  EXPECT_THAT(std::string(end.message()),
              HasSubstr("the certificate of CN=w0"));
  EXPECT_TRUE(log.Contains(
      "access.ended method=/ringmaster.v1.CoordinatorService/Session"));
  TestWorker again(channel, "w0");
  EXPECT_FALSE(again.Join());
  other.HangUp();
  EXPECT_FALSE(absl::IsUnavailable(FromGrpcStatus(other.End())));
}

TEST_F(AccessTest, ACancellationThatIsRefusedIsALine) {
  const auto jobs = v1::JobService::NewStub(ConnectAs(Role::kSubmitter));
  v1::SubmitJobRequest submit;
  submit.mutable_spec()->set_name("digits");
  submit.mutable_spec()->mutable_train()->mutable_model()->mutable_mlp();
  submit.mutable_spec()->mutable_train()->mutable_data()->mutable_synthetic();
  submit.mutable_spec()->mutable_train()->set_steps(10);
  v1::SubmitJobResponse submitted;
  grpc::ClientContext context;
  ASSERT_TRUE(jobs->SubmitJob(&context, submit, &submitted).ok());
  const auto others =
      v1::JobService::NewStub(Connect(nullptr, TokenOf(Role::kSubmitter)));
  v1::CancelJobRequest cancel;
  cancel.set_job(submitted.job().id());
  v1::CancelJobResponse response;
  LogCapture log;
  grpc::ClientContext another;
  EXPECT_EQ(others->CancelJob(&another, cancel, &response).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(log.Contains(
      "access.refused method=/ringmaster.v1.JobService/CancelJob"));
  EXPECT_TRUE(
      log.Contains("is c-submitter's, and t-submitter (submitter) may "
                   "change only jobs of its own"));
}

TEST_F(AccessTest, PrioritiesAboveZeroAreForOperators) {
  const auto jobs = v1::JobService::NewStub(ConnectAs(Role::kSubmitter));
  v1::SubmitJobRequest submit;
  submit.mutable_spec()->set_name("digits");
  submit.mutable_spec()->set_priority(1);
  submit.mutable_spec()->mutable_train()->mutable_model()->mutable_mlp();
  submit.mutable_spec()->mutable_train()->mutable_data()->mutable_synthetic();
  submit.mutable_spec()->mutable_train()->set_steps(10);
  LogCapture log;
  v1::SubmitJobResponse submitted;
  grpc::ClientContext above;
  EXPECT_EQ(jobs->SubmitJob(&above, submit, &submitted).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(log.Contains(
      "access.refused method=/ringmaster.v1.JobService/SubmitJob"));
  submit.mutable_spec()->set_priority(-1);
  grpc::ClientContext below;
  ASSERT_TRUE(jobs->SubmitJob(&below, submit, &submitted).ok());
  EXPECT_EQ(submitted.job().priority(), -1);

  v1::ChangeJobRequest change;
  change.set_job(submitted.job().id());
  change.set_priority(1);
  v1::ChangeJobResponse changed;
  grpc::ClientContext raised;
  EXPECT_EQ(jobs->ChangeJob(&raised, change, &changed).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  const auto operators = v1::JobService::NewStub(ConnectAs(Role::kOperator));
  grpc::ClientContext allowed;
  ASSERT_TRUE(operators->ChangeJob(&allowed, change, &changed).ok());
  EXPECT_EQ(changed.job().priority(), 1);
}

// The session's role is in its hello: a worker's certificate makes no server.
TEST_F(AccessTest, AHelloIsInARoleOfItsCaller) {
  TestWorker worker(ConnectAs(Role::kWorker), "w0");
  v1::SessionRequest hello = worker.HelloMessage();
  hello.mutable_hello()->set_role(v1::ROLE_PARAMETER_SERVER);
  worker.Say(hello);
  const absl::Status end = FromGrpcStatus(worker.End());
  EXPECT_EQ(end.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(end.message(),
            "c-worker (worker) may not join as a parameter server, which takes "
            "the role server");
  TestWorker again(ConnectAs(Role::kWorker), "w0");
  EXPECT_TRUE(again.Join());
}

// All that it needs to know is public; the key is not.
TEST_F(AccessTest, ASessionCannotBeTakenOver) {
  TestWorker worker(ConnectAs(Role::kWorker), "w0");
  v1::SessionRequest hello = worker.HelloMessage();
  hello.mutable_hello()->set_resume_key(RandomBytes(kKeyBytes));
  worker.Say(hello);
  ASSERT_TRUE(worker.Hear().has_welcome());
  const auto channel = ConnectAs(Role::kWorker);
  for (int i = 0; i < 100; ++i) {
    TestWorker intruder(channel, "w0");
    v1::SessionRequest claim = hello;
    claim.mutable_hello()->set_attempt(i);
    if (i % 2 == 0) {
      claim.mutable_hello()->clear_resume_key();
    } else {
      claim.mutable_hello()->set_resume_key(RandomBytes(kKeyBytes));
    }
    intruder.Say(claim);
    EXPECT_EQ(ReasonOf(FromGrpcStatus(intruder.End())),
              reason::kIdentityNotProven);
  }
  // The real one is still heard, and still the one.
  v1::SessionRequest again = hello;
  again.mutable_hello()->set_attempt(200);
  TestWorker real(channel, "w0");
  real.Say(again);
  EXPECT_TRUE(real.Hear().has_welcome());
  EXPECT_EQ(ReasonOf(FromGrpcStatus(worker.End())), reason::kSuperseded);
}

}  // namespace
}  // namespace ringmaster::coordinator
