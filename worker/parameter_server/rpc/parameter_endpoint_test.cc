#include "worker/parameter_server/rpc/parameter_endpoint.h"

#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace ringmaster
