#include "worker/parameter_server/rpc/parameter_endpoint.h"

#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/credentials/credentials.h"
#include "common/credentials/testing/test_certificates.h"
#include "common/logging/testing/log_capture.h"
#include "common/rpc/channel.h"
#include "ringmaster/v1/parameter_service.grpc.pb.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

// A process that no job has given shards yet.
class EmptyStore final : public ParameterStore {
 public:
  absl::StatusOr<StoredShards> shards(MonotonicTime) override {
    return absl::FailedPreconditionError("nothing here");
  }
  absl::StatusOr<StoredElements> Read(std::vector<ElemRange>,
                                      MonotonicTime) override {
    return absl::FailedPreconditionError("nothing here");
  }
  absl::StatusOr<int64_t> Push(const std::string&, int64_t, int64_t,
                               std::vector<float>, MonotonicTime) override {
    return absl::FailedPreconditionError("nothing here");
  }
};

TEST(ParameterEndpointTest, ServesAStoreToOtherProcesses) {
  EmptyStore store;
  const auto endpoint =
      ParameterEndpoint::Start(store, Clock::Real(), {"127.0.0.1", 0},
                               grpc::InsecureServerCredentials());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto stub = v1::ParameterService::NewStub(MakeChannel(
      (*endpoint)->address().ToString(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::GetShardsResponse response;
  const grpc::Status status = stub->GetShards(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "nothing here");
}

TEST(ParameterEndpointTest, APortThatIsTakenIsNamed) {
  EmptyStore store;
  const auto first =
      ParameterEndpoint::Start(store, Clock::Real(), {"127.0.0.1", 0},
                               grpc::InsecureServerCredentials());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second =
      ParameterEndpoint::Start(store, Clock::Real(), (*first)->address(),
                               grpc::InsecureServerCredentials());
  ASSERT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr((*first)->address().ToString()));
}

constexpr std::string_view kReflection[] = {
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"};

// Calls a method of one answer or of many with an empty message.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                  std::string_view method) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  const v1::GetShardsRequest nothing;
  const std::string name(method);
  const grpc::internal::RpcMethod rpc(
      name.c_str(), grpc::internal::RpcMethod::SERVER_STREAMING, channel);
  const std::unique_ptr<grpc::ClientReader<v1::GetShardsResponse>> reader(
      grpc::internal::ClientReaderFactory<v1::GetShardsResponse>::Create(
          channel.get(), rpc, &context, nothing));
  v1::GetShardsResponse answer;
  if (reader->Read(&answer)) context.TryCancel();
  return reader->Finish();
}

// Its streams would hold threads for ever, and count for no limit.
TEST(ParameterEndpointTest, HasNoReflection) {
  EmptyStore store;
  const auto endpoint =
      ParameterEndpoint::Start(store, Clock::Real(), {"127.0.0.1", 0},
                               grpc::InsecureServerCredentials());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto channel = MakeChannel((*endpoint)->address().ToString(),
                                   grpc::InsecureChannelCredentials());
  for (const std::string_view method : kReflection) {
    EXPECT_EQ(Call(channel, method).error_code(),
              grpc::StatusCode::UNIMPLEMENTED)
        << method;
  }
}

// What the descriptors say, in the order of their names.
std::set<std::string> OwnMethods() {
  std::set<std::string> methods;
  const auto& service = *v1::GetShardsRequest::descriptor()->file()->service(0);
  for (int i = 0; i < service.method_count(); ++i) {
    methods.insert(
        absl::StrCat("/", service.full_name(), "/", service.method(i)->name()));
  }
  return methods;
}

TEST(ParameterMethodsTest, HasEveryMethodOfTheService) {
  std::set<std::string> listed;
  for (const MethodRoles& row : ParameterMethods()) {
    EXPECT_FALSE(row.roles.empty()) << row.method;
    if (row.method.substr(0, 6) != "/grpc.") listed.emplace(row.method);
  }
  EXPECT_EQ(listed, OwnMethods());
}

class ParameterEndpointAccessTest : public ::testing::Test {
 protected:
  ParameterEndpointAccessTest() {
    const TestCertificates::Files files = ours_.Issue("server", {"server"});
    const auto credentials =
        MakeServerCredentials({.tls_ca_file = ours_.ca_file(),
                               .tls_cert_file = files.certificate,
                               .tls_key_file = files.key},
                              "127.0.0.1:0");
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    auto endpoint = ParameterEndpoint::Start(
        store_, Clock::Real(), {"127.0.0.1", 0}, *credentials,
        std::make_shared<AccessControl>(ParameterMethods(), std::nullopt));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }

  std::shared_ptr<grpc::Channel> ConnectWith(
      const std::vector<std::string>& roles) {
    const TestCertificates::Files files =
        ours_.Issue(absl::StrCat("c-", absl::StrJoin(roles, "-")), roles);
    const std::string address = endpoint_->address().ToString();
    const auto credentials =
        MakeChannelCredentials({.tls_ca_file = ours_.ca_file(),
                                .tls_cert_file = files.certificate,
                                .tls_key_file = files.key},
                               address);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return MakeChannel(address, *credentials, {.has_own_connection = true});
  }

  const TestCertificates ours_{::testing::TempDir(), "ours"};
  EmptyStore store_;
  std::unique_ptr<ParameterEndpoint> endpoint_;
};

TEST_F(ParameterEndpointAccessTest, EveryMethodTakesItsRolesAndNoOther) {
  for (const Role role : {Role::kViewer, Role::kSubmitter, Role::kOperator,
                          Role::kWorker, Role::kServer}) {
    const auto channel = ConnectWith({std::string(NameOf(role))});
    for (const MethodRoles& row : ParameterMethods()) {
      const grpc::Status status = Call(channel, row.method);
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE);
      EXPECT_EQ(status.error_code() != grpc::StatusCode::PERMISSION_DENIED,
                row.roles.Has(role))
          << row.method << " as " << NameOf(role) << ": "
          << status.error_message();
    }
  }
}

TEST_F(ParameterEndpointAccessTest, AMethodWithoutAnEntryIsNobodys) {
  const auto channel = ConnectWith({"operator", "worker"});
  for (const std::string_view method : kReflection) {
    EXPECT_EQ(Call(channel, method).error_code(),
              grpc::StatusCode::PERMISSION_DENIED)
        << method;
  }
}

TEST_F(ParameterEndpointAccessTest, ARefusalIsALineWithItsSender) {
  LogCapture log;
  const auto viewer = ConnectWith({"viewer"});
  const grpc::Status status =
      Call(viewer, "/ringmaster.v1.ParameterService/Push");
  EXPECT_EQ(
      status.error_message(),
      "c-viewer (viewer) may not call "
      "ringmaster.v1.ParameterService/Push, which takes the role operator "
      "or worker");
  EXPECT_TRUE(log.Contains(
      "W access.refused method=/ringmaster.v1.ParameterService/Push "
      "error=\"c-viewer (viewer) may not call"));
}

TEST_F(ParameterEndpointAccessTest, ACertificateWithoutARoleOpensNothing) {
  const auto nobody = ConnectWith({});
  for (const MethodRoles& row : ParameterMethods()) {
    const grpc::Status status = Call(nobody, row.method);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_THAT(status.error_message(), HasSubstr("has no role: issue one"));
  }
}

}  // namespace
}  // namespace ringmaster
