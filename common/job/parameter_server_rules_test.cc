#include <functional>
#include <string>

#include "common/job/job_spec.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
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

TEST(ParameterServerSpecTest, FillsInTheDocumentedDefaults) {
  absl::StatusOr<v1::JobSpec> spec = ValidateAndDefault(SpecWithServers(2));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(Servers(*spec).consistency(), v1::CONSISTENCY_BSP);
  EXPECT_EQ(Servers(*spec).staleness(), 0);
  EXPECT_EQ(Servers(*spec).replicas(), 0);
  v1::JobSpec ssp = SpecWithServers(2);
  Servers(ssp).set_consistency(v1::CONSISTENCY_SSP);
  spec = ValidateAndDefault(ssp);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(Servers(*spec).staleness(), 2);
}

struct Mistake {
  const char* name;
  std::function<void(v1::JobSpec&)> make;
  const char* text;
};

class ParameterServerMistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(ParameterServerMistakeTest, IsRefusedByFieldPath) {
  v1::JobSpec spec = SpecWithServers(2);
  GetParam().make(spec);
  const absl::Status status = ValidateAndDefault(spec).status();
  EXPECT_EQ(ReasonOf(status), reason::kInvalidJobSpec);
  EXPECT_EQ(status.message(), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All, ParameterServerMistakeTest,
    ::testing::Values(
        Mistake{"NoServers", [](auto& s) { Servers(s).set_servers(0); },
                "train.parameter_server.servers must be at least 1, got 0"},
        Mistake{"TooManyServers", [](auto& s) { Servers(s).set_servers(65); },
                "train.parameter_server.servers must be at most 64, got 65"},
        Mistake{"ServersAndColocated",
                [](auto& s) { Servers(s).set_colocated(true); },
                "train.parameter_server.servers must be left out with "
                "train.parameter_server.colocated, got 2"},
        Mistake{"UnknownConsistency",
                [](auto& s) {
                  Servers(s).set_consistency(static_cast<v1::Consistency>(9));
                },
                "train.parameter_server.consistency must be bsp, ssp or async, "
                "got 9; this program may be older than the one that wrote it"},
        Mistake{"StalenessWithoutSsp",
                [](auto& s) { Servers(s).set_staleness(3); },
                "train.parameter_server.staleness needs "
                "train.parameter_server.consistency of ssp, got 3"},
        Mistake{"NegativeStaleness",
                [](auto& s) {
                  Servers(s).set_consistency(v1::CONSISTENCY_SSP);
                  Servers(s).set_staleness(-1);
                },
                "train.parameter_server.staleness must be at least 1, got -1"},
        Mistake{"TooManyReplicas", [](auto& s) { Servers(s).set_replicas(2); },
                "train.parameter_server.replicas must be at most 1, got 2"},
        Mistake{"ReplicaOfOneServer",
                [](auto& s) {
                  Servers(s).set_servers(1);
                  Servers(s).set_replicas(1);
                },
                "train.parameter_server.replicas of 1 needs "
                "train.parameter_server.servers of at least 2, got 1"},
        Mistake{"ReplicaOfOneWorker",
                [](auto& s) {
                  s.mutable_workers()->set_max(1);
                  Servers(s).clear_servers();
                  Servers(s).set_colocated(true);
                  Servers(s).set_replicas(1);
                },
                "train.parameter_server.replicas of 1 needs workers.max of at "
                "least 2, got 1"},
        Mistake{"DeterministicWithoutBsp",
                [](auto& s) {
                  Servers(s).set_consistency(v1::CONSISTENCY_ASYNC);
                  Servers(s).set_deterministic(true);
                },
                "train.parameter_server.deterministic needs "
                "train.parameter_server.consistency of bsp"},
        Mistake{"Algorithm",
                [](auto& s) {
                  s.mutable_train()->mutable_collective()->set_algorithm(
                      v1::COLLECTIVE_ALGORITHM_RING);
                },
                "train.collective.algorithm must be left out with "
                "train.parameter_server: nothing is all-reduced"},
        Mistake{"ClippingWithoutBsp",
                [](auto& s) {
                  Servers(s).set_consistency(v1::CONSISTENCY_ASYNC);
                  s.mutable_train()
                      ->mutable_optimizer()
                      ->mutable_sgd()
                      ->set_clip_norm(1);
                },
                "train.optimizer: clip_norm needs "
                "train.parameter_server.consistency of bsp, got 1"}),
    [](const ::testing::TestParamInfo<Mistake>& mistake) {
      return std::string(mistake.param.name);
    });

}  // namespace
}  // namespace ringmaster
