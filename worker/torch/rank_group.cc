#include "worker/torch/rank_group.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/plan/topology.h"
#include "common/status/status_macros.h"
#include "common/transport/establish.h"
#include "worker/collective/connect_mesh.h"

namespace ringmaster {
namespace {

// Each group has an id and a secret of its own, and is one generation.
constexpr int64_t kGeneration = 1;

// Once all ranks have met, they are there: connecting takes no longer, and a
// host that answers nothing for half of it is gone (see MeshConfig::deadline).
constexpr absl::Duration kConnectTime = absl::Minutes(1);

Topology TopologyOf(const GroupMembers& members) {
  std::vector<std::string> hosts;
  std::vector<int> host_of_rank;
  for (const GroupMember& member : members.members) {
    const auto host = std::find(hosts.begin(), hosts.end(), member.host_key);
    host_of_rank.push_back(static_cast<int>(host - hosts.begin()));
    if (host == hosts.end()) hosts.push_back(member.host_key);
  }
  return Topology(std::move(host_of_rank));
}

absl::StatusOr<Listener> ListenFor(const RankGroupOptions& options) {
  if (!options.port_range.has_value())
    return Listener::Listen(absl::StrCat(options.address, ":0"));
  return Listener::ListenInRange(options.address, options.port_range->first,
                                 options.port_range->last);
}

absl::Status CheckAddress(const RankGroupOptions& options,
                          const GroupMembers& members) {
  if (!options.is_local_only || TopologyOf(members).host_count() == 1)
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the ranks are on several hosts, and rank ", options.rank,
      " does not know its address there: set MASTER_ADDR, or "
      "GLOO_SOCKET_IFNAME to the interface that others reach it over"));
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectCollectives(
    const Listener& listener, const GroupMembers& members,
    const RankGroupOptions& options, MonotonicTime deadline) {
  MeshConfig mesh;
  mesh.job_id = members.id;
  mesh.generation = kGeneration;
  mesh.rank = options.rank;
  mesh.topology = TopologyOf(members);
  for (size_t rank = 0; rank < members.members.size(); ++rank) {
    mesh.peers.push_back(
        {static_cast<int>(rank), members.members[rank].address});
  }
  mesh.secret = members.secret;
  mesh.deadline = deadline;
  mesh.clock = options.clock;
  return ConnectMesh(listener, mesh, /*cancel=*/nullptr);
}

absl::StatusOr<std::unique_ptr<PointToPoint>> ConnectMessages(
    const Listener& listener, const GroupMembers& members,
    const RankGroupOptions& options, MonotonicTime deadline) {
  EstablishConfig config;
  config.job_id = members.id;
  config.generation = kGeneration;
  config.rank = options.rank;
  config.secret = members.secret;
  config.deadline = deadline;
  config.silence_limit = kConnectTime / 2;
  config.clock = options.clock;
  std::vector<PeerLink> connect_to;
  std::vector<PeerLink> accept_from;
  for (int peer = 0; peer < options.world_size; ++peer) {
    const PeerLink link = {
        peer, LinkRole::kMessages,
        members.members[static_cast<size_t>(peer)].message_address};
    if (peer < options.rank) connect_to.push_back(link);
    if (peer > options.rank) accept_from.push_back(link);
  }
  ASSIGN_OR_RETURN(EstablishedLinks established,
                   EstablishLinks(listener, config, connect_to, accept_from));
  std::vector<std::unique_ptr<Link>> links;
  for (EstablishedLink& lower : established.connected)
    links.push_back(std::move(lower.link));
  links.push_back(nullptr);
  for (EstablishedLink& higher : established.accepted)
    links.push_back(std::move(higher.link));
  return std::make_unique<PointToPoint>(options.rank, std::move(links),
                                        *options.clock);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Connect(
    GroupStore& store, const RankGroupOptions& options) {
  ASSIGN_OR_RETURN(const Listener listener, ListenFor(options));
  // One of its own: a rank may still await collectives' connections when another
  // makes those for messages.
  ASSIGN_OR_RETURN(const Listener message_listener, ListenFor(options));
  ASSIGN_OR_RETURN(const GroupMembers members,
                   MeetMembers(store, options.rank, options.world_size,
                               {options.host_key, listener.address().ToString(),
                                message_listener.address().ToString()},
                               options.connect_timeout, options.note));
  RETURN_IF_ERROR(CheckAddress(options, members));
  const MonotonicTime deadline =
      options.clock->Now() + std::min(options.connect_timeout, kConnectTime);
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                   ConnectCollectives(listener, members, options, deadline));
  std::unique_ptr<PointToPoint> messages;
  if (options.world_size <= kMaxRanksWithMessages) {
    ASSIGN_OR_RETURN(messages, ConnectMessages(message_listener, members,
                                               options, deadline));
  }
  return std::unique_ptr<RankGroup>(new RankGroup(
      std::move(communicator), std::move(messages), *options.clock));
}

RankGroup::RankGroup(std::unique_ptr<Communicator> communicator,
                     std::shared_ptr<PointToPoint> messages, Clock& clock)
    : clock_(clock),
      communicator_(std::move(communicator)),
      messages_(std::move(messages)) {}

RankGroup::~RankGroup() {
  // Those who hold a message may outlive the group.
  if (messages_ != nullptr) messages_->Stop("the process group was destroyed");
}

absl::Status RankGroup::RunCollective(const CollectiveRequest& request,
                                      absl::Duration timeout) {
  const absl::Status status =
      communicator_->Run(request, clock_.Now() + timeout);
  if (!status.ok()) has_failed_ = true;
  return status;
}

RankActivity RankGroup::activity(std::string_view collective) const {
  const CollectiveProgress progress = communicator_->progress();
  RankActivity activity;
  activity.done = progress.completed;
  // After a failure it goes on to say whom it waited for.
  if (progress.waiting_for_rank >= 0 && !has_failed_) {
    activity.awaited_rank = progress.waiting_for_rank;
    activity.operation = absl::StrCat(
        absl::string_view(collective.data(), collective.size()),
        ", collective ", progress.completed + 1, " of its process group");
  }
  if (messages_ == nullptr) return activity;
  const PointToPoint::Awaited awaited = messages_->awaited();
  activity.done += awaited.over;
  if (activity.awaited_rank < 0 && awaited.rank != PointToPoint::kAnyRank) {
    activity.awaited_rank = awaited.rank;
    activity.operation = awaited.key.kind == MessageKey::Kind::kCollective
                             ? std::string(collective)
                             : absl::StrCat(awaited.is_send ? "send" : "recv",
                                            ", tag ", awaited.key.tag);
  }
  return activity;
}

absl::StatusOr<std::shared_ptr<PointToPoint>> RankGroup::Messages() const {
  if (messages_ != nullptr) return messages_;
  return absl::UnimplementedError(absl::StrCat(
      "messages between single ranks, which this needs, are for groups of at "
      "most ",
      kMaxRanksWithMessages, " ranks, not ", world_size()));
}

absl::Status RankGroup::Exchange(const Parts& to, const Parts& from,
                                 absl::Duration timeout) {
  RETURN_IF_ERROR(Messages().status());
  const MonotonicTime deadline = clock_.Now() + timeout;
  const MessageKey key = {MessageKey::Kind::kCollective, ++exchanges_};
  const auto own = static_cast<size_t>(rank());
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (size_t peer = 0; peer < from.size(); ++peer) {
    if (peer == own || !from[peer].has_value()) continue;
    transfers.push_back(
        messages_->Receive(static_cast<int>(peer), key, *from[peer]));
  }
  // Each begins with the next rank, so that not all send to the first at once.
  for (size_t distance = 1; distance < to.size(); ++distance) {
    const size_t peer = (own + distance) % to.size();
    if (!to[peer].has_value()) continue;
    transfers.push_back(
        messages_->Send(static_cast<int>(peer), key, *to[peer]));
  }
  absl::Status status;
  if (to[own].has_value() && from[own].has_value()) {
    if (to[own]->size() == from[own]->size()) {
      std::copy(to[own]->begin(), to[own]->end(), from[own]->begin());
    } else {
      status = absl::InvalidArgumentError(
          absl::StrCat("rank ", own, " gives itself ", to[own]->size(),
                       " bytes and expects ", from[own]->size()));
    }
  }
  // All of them, since none may touch a buffer afterwards.
  for (const auto& transfer : transfers) {
    status.Update(
        messages_->Wait(*transfer, status.ok() ? deadline : clock_.Now()));
  }
  return status;
}

absl::Status RankGroup::MonitoredBarrier(absl::Duration timeout,
                                         bool names_all) {
  RETURN_IF_ERROR(Messages().status());
  const MessageKey key = {MessageKey::Kind::kCollective, ++exchanges_};
  std::array<std::byte, 1> word = {};
  if (rank() != 0) {
    RETURN_IF_ERROR(messages_->Wait(*messages_->Send(0, key, word),
                                    clock_.Now() + timeout));
    const absl::Status status = messages_->Wait(
        *messages_->Receive(0, key, word), clock_.Now() + 2 * timeout);
    if (!status.ok() || word[0] == std::byte{0}) return status;
    return absl::DeadlineExceededError(
        "rank 0 misses other ranks in monitored_barrier: see its error");
  }
  const MonotonicTime deadline = clock_.Now() + timeout;
  std::vector<std::string> missing;
  for (int peer = 1; peer < world_size(); ++peer) {
    const absl::Status status =
        messages_->Wait(*messages_->Receive(peer, key, word), deadline);
    if (status.ok()) continue;
    if (!absl::IsDeadlineExceeded(status)) return status;
    missing.push_back(absl::StrCat(peer));
    if (!names_all) break;
  }
  word[0] = missing.empty() ? std::byte{0} : std::byte{1};
  std::vector<std::shared_ptr<Transfer>> words;
  for (int peer = 1; peer < world_size(); ++peer)
    words.push_back(messages_->Send(peer, key, word));
  for (const auto& sent : words) {
    (void)messages_->Wait(*sent, std::max(deadline, clock_.Now()));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("monitored_barrier: rank ", absl::StrJoin(missing, ", "),
                   " did not come within ", absl::FormatDuration(timeout)));
}

void RankGroup::Abort(std::string_view why) {
  communicator_->Abort(why);
  if (messages_ != nullptr) messages_->Abort(why);
}

}  // namespace ringmaster
