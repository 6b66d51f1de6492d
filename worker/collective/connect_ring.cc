#include "worker/collective/connect_ring.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/establish.h"
#include "worker/collective/host_communicator.h"

namespace ringmaster {
namespace {

EstablishConfig ToEstablishConfig(const RingConfig& config,
                                  const CancelToken* cancel) {
  EstablishConfig establish;
  establish.job_id = config.job_id;
  establish.generation = config.generation;
  establish.rank = config.rank;
  establish.secret = config.secret;
  establish.deadline = config.deadline;
  establish.clock = config.clock;
  establish.cancel = cancel;
  establish.on_refused = config.on_refused;
  // A peer that answers nothing for as long as connecting to it may take is as
  // far away as one that cannot be connected to. Half of that time passes before
  // the kernel is sure that it asked in vain.
  establish.silence_limit = (config.deadline - config.clock->Now()) / 2;
  return establish;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectRing(
    const Listener& listener, const RingConfig& config,
    const CancelToken* cancel) {
  if (config.world_size < 1 || config.rank < 0 ||
      config.rank >= config.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", config.rank, " in a world of ", config.world_size));
  }
  HostCommunicator::Options options;
  options.job_id = config.job_id;
  options.generation = config.generation;
  options.rank = config.rank;
  options.world_size = config.world_size;
  options.clock = config.clock;
  options.trace = config.trace;
  if (config.world_size == 1) {
    return std::make_unique<HostCommunicator>(options, nullptr, nullptr);
  }
  const int next_rank = (config.rank + 1) % config.world_size;
  const int prev_rank =
      (config.rank + config.world_size - 1) % config.world_size;
  const std::vector<PeerLink> next = {
      {next_rank, LinkRole::kRing, config.next_address}};
  const std::vector<PeerLink> prev = {{prev_rank, LinkRole::kRing, ""}};
  ASSIGN_OR_RETURN(
      EstablishedLinks links,
      EstablishLinks(listener, ToEstablishConfig(config, cancel), next, prev));
  return std::make_unique<HostCommunicator>(
      options, std::move(links.connected[0]), std::move(links.accepted[0]));
}

}  // namespace ringmaster
