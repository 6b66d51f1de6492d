#include "server/coordinator/rpc/job_spec_parameter_server.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/parameter_server/update_rules.h"

namespace ringmaster::coordinator {
namespace {

constexpr char kPath[] = "train.parameter_server";
constexpr int64_t kMaxServers = 64;
constexpr int32_t kDefaultStaleness = 2;
constexpr int64_t kMaxStaleness = 1'000'000;

double ClipNormOf(const v1::OptimizerSpec& optimizer) {
  return optimizer.has_sgd() ? optimizer.sgd().clip_norm()
                             : optimizer.adamw().clip_norm();
}

void CheckHosts(const v1::ParameterServerSpec& spec, int32_t max_workers,
                SpecErrors& errors) {
  const std::string path = kPath;
  if (spec.colocated() && spec.servers() != 0) {
    errors.Add(absl::StrCat(path, ".servers must be left out with ", path,
                            ".colocated, got ", spec.servers()));
  } else if (!spec.colocated()) {
    errors.RequireRange(path + ".servers", spec.servers(), 1, kMaxServers);
  }
  errors.RequireRange(path + ".replicas", spec.replicas(), 0, 1);
  if (spec.replicas() != 1) return;
  if (spec.colocated() && max_workers < 2) {
    errors.Add(absl::StrCat(
        path, ".replicas of 1 needs workers.max of at least 2, got ",
        max_workers));
  } else if (spec.servers() == 1) {
    errors.Add(path + ".replicas of 1 needs " + path +
               ".servers of at least 2, got 1");
  }
}

void CheckConsistency(v1::ParameterServerSpec& spec, SpecErrors& errors) {
  const std::string path = kPath;
  if (spec.consistency() == v1::CONSISTENCY_UNSPECIFIED) {
    spec.set_consistency(v1::CONSISTENCY_BSP);
  }
  errors.RequireKnown(v1::Consistency_IsValid(spec.consistency()),
                      path + ".consistency", "bsp, ssp or async",
                      spec.consistency());
  if (spec.consistency() == v1::CONSISTENCY_SSP) {
    if (spec.staleness() == 0) spec.set_staleness(kDefaultStaleness);
    errors.RequireRange(path + ".staleness", spec.staleness(), 1,
                        kMaxStaleness);
  } else if (spec.staleness() != 0) {
    errors.Add(absl::StrCat(path, ".staleness needs ", path,
                            ".consistency of ssp, got ", spec.staleness()));
  }
}

}  // namespace

void CheckParameterServer(v1::TrainProgram& train, int32_t max_workers,
                          SpecErrors& errors) {
  if (!train.has_parameter_server()) return;
  v1::ParameterServerSpec& spec = *train.mutable_parameter_server();
  const std::string path = kPath;
  CheckHosts(spec, max_workers, errors);
  CheckConsistency(spec, errors);
  const bool is_bsp = spec.consistency() == v1::CONSISTENCY_BSP;
  if (spec.deterministic() && !is_bsp) {
    errors.Add(path + ".deterministic needs " + path + ".consistency of bsp");
  }
  if (train.collective().algorithm() != v1::COLLECTIVE_ALGORITHM_UNSPECIFIED) {
    errors.Add("train.collective.algorithm must be left out with " + path +
               ": nothing is all-reduced");
  }
  if (const double clip_norm = ClipNormOf(train.optimizer());
      clip_norm != 0 && !is_bsp) {
    errors.Add(absl::StrCat("train.optimizer: clip_norm needs ", path,
                            ".consistency of bsp, got ", clip_norm));
  }
}

namespace {

int32_t MostHolders(const v1::JobSpec& spec) {
  const v1::ParameterServerSpec& server = spec.train().parameter_server();
  return server.colocated() ? spec.workers().max() : server.servers();
}

}  // namespace

Sharding ShardingOf(const v1::JobSpec& spec) {
  if (!spec.train().has_parameter_server()) return Sharding();
  const v1::ParameterServerSpec& server = spec.train().parameter_server();
  // Each holder has a shard for each of its lanes (LaneOfShard).
  const int32_t lanes = LanesOf(spec.train());
  return Sharding{.servers = server.servers(),
                  .shards = MostHolders(spec) * lanes,
                  .lanes = lanes,
                  .replicas = server.replicas(),
                  .is_lockstep = server.consistency() == v1::CONSISTENCY_BSP};
}

std::string WarningOf(const v1::JobSpec& spec) {
  const Sharding sharding = ShardingOf(spec);
  if (sharding.shards == 0 || sharding.replicas > 0) return "";
  const bool can_have_two = MostHolders(spec) > 1;
  return absl::StrCat(
      "there is one copy of the parameters: the loss of a ",
      sharding.servers > 0 ? "parameter server" : "worker",
      " sets the job back to ",
      spec.train().checkpoint().directory().empty()
          ? "its beginning, since it writes no checkpoints"
          : "its last checkpoint",
      can_have_two ? " (train.parameter_server.replicas: 1 keeps a second)"
                   : "");
}

}  // namespace ringmaster::coordinator
