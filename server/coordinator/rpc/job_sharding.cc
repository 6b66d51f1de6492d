#include "server/coordinator/rpc/job_sharding.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/job/job_spec.h"
#include "common/parameter_server/update_rules.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/journal/record_proto.h"

namespace ringmaster::coordinator {
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

JobTerms TermsOf(const v1::JobSpec& spec) {
  JobTerms terms;
  terms.name = spec.name();
  terms.spec = SerializeSpec(spec);
  terms.min_workers = spec.workers().min();
  terms.max_workers = spec.workers().max();
  terms.settle = FromProto(spec.workers().settle());
  terms.needs = NeedsOf(spec);
  // A benchmark's steps are its sizes.
  terms.total_steps =
      spec.has_bench() ? spec.bench().sizes_size() : spec.train().steps();
  if (spec.has_external()) terms.total_steps = 1;
  terms.is_benchmark = spec.has_bench();
  terms.runs_commands = spec.has_external();
  terms.keeps_checkpoints = !spec.train().checkpoint().directory().empty();
  terms.can_go_on_later = CanGoOnLater(spec);
  terms.scale_limit = ScaleLimit(spec);
  terms.fails_on_write_error = FailsOnWriteError(spec);
  terms.can_end_early = CanEndEarly(spec);
  terms.sharding = ShardingOf(spec);
  terms.priority = spec.priority();
  if (!spec.queue().empty()) terms.queue = spec.queue();
  return terms;
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
