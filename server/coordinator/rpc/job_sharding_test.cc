#include "server/coordinator/rpc/job_sharding.h"

#include "common/job/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

v1::JobSpec SpecWithServers(int servers) {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_workers()->set_min(1);
  spec.mutable_workers()->set_max(4);
  spec.mutable_train()->mutable_model()->mutable_mlp();
  spec.mutable_train()->mutable_data()->mutable_synthetic();
  spec.mutable_train()->set_steps(10);
  spec.mutable_train()->mutable_parameter_server()->set_servers(servers);
  return spec;
}

v1::ParameterServerSpec& Servers(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_parameter_server();
}

TEST(JobShardingTest, ShardsAreAsManyAsServersOrAsWorkersAtMost) {
  v1::JobSpec spec = SpecWithServers(3);
  Servers(spec).set_replicas(1);
  EXPECT_EQ(ShardingOf(*ValidateAndDefault(spec)),
            (Sharding{.servers = 3, .shards = 3, .replicas = 1}));
  spec = SpecWithServers(0);
  Servers(spec).set_colocated(true);
  Servers(spec).set_consistency(v1::CONSISTENCY_ASYNC);
  const Sharding sharding = ShardingOf(*ValidateAndDefault(spec));
  EXPECT_EQ(sharding, (Sharding{.shards = 4, .is_lockstep = false}));
  EXPECT_TRUE(sharding.IsColocated());
  // Each lane has as many.
  spec.mutable_train()->mutable_collective()->set_connections(3);
  EXPECT_EQ(ShardingOf(*ValidateAndDefault(spec)).shards, 12);
  EXPECT_EQ(ShardingOf(*ValidateAndDefault(spec)).lanes, 3);
  spec.mutable_train()->clear_parameter_server();
  EXPECT_EQ(ShardingOf(*ValidateAndDefault(spec)), Sharding());
}

TEST(JobShardingTest, TermsSayWhetherAWriteErrorEndsTheJob) {
  v1::JobSpec spec = SpecWithServers(1);
  v1::CheckpointSpec& checkpoint = *spec.mutable_train()->mutable_checkpoint();
  checkpoint.set_directory("/ckpt");
  EXPECT_TRUE(TermsOf(spec).keeps_checkpoints);
  EXPECT_FALSE(TermsOf(spec).fails_on_write_error);
  checkpoint.set_on_error(v1::WRITE_ERROR_POLICY_FAIL);
  EXPECT_TRUE(TermsOf(spec).fails_on_write_error);
}

TEST(JobShardingTest, TermsSayWhetherItMayEndEarly) {
  v1::JobSpec spec = SpecWithServers(1);
  EXPECT_FALSE(TermsOf(spec).can_end_early);
  spec.mutable_train()->mutable_early_stop()->set_patience(3);
  EXPECT_TRUE(TermsOf(spec).can_end_early);
}

TEST(JobShardingTest, WarnsOfWhatALossWouldCost) {
  v1::JobSpec spec = SpecWithServers(2);
  EXPECT_EQ(WarningOf(spec),
            "there is one copy of the parameters: the loss of a parameter "
            "server sets the job back to its beginning, since it writes no "
            "checkpoints (train.parameter_server.replicas: 1 keeps a second)");
  spec.mutable_train()->mutable_checkpoint()->set_directory("/c");
  EXPECT_THAT(WarningOf(spec), HasSubstr("back to its last checkpoint (train"));
  Servers(spec).set_servers(1);
  EXPECT_TRUE(WarningOf(spec).ends_with("its last checkpoint"));
  // A server's lanes do not count as holders.
  spec.mutable_train()->mutable_collective()->set_connections(2);
  EXPECT_TRUE(WarningOf(spec).ends_with("its last checkpoint"));
  Servers(spec).set_servers(2);
  Servers(spec).set_replicas(1);
  EXPECT_EQ(WarningOf(spec), "");
  spec.mutable_train()->clear_parameter_server();
  EXPECT_EQ(WarningOf(spec), "");
}

}  // namespace
}  // namespace ringmaster::coordinator
