#include "worker/torch/rank_group.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/plan/topology.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/establish.h"
#include "worker/collective/connect_mesh.h"

namespace ringmaster {
namespace {

// Each group has an id and a secret of its own, and is one generation.
constexpr int64_t kFirstGeneration = 1;

// Once all ranks have met, they are there: connecting takes no longer, and a
// host that answers nothing for half of it is gone (see MeshConfig::deadline).
constexpr absl::Duration kConnectTime = absl::Minutes(1);

// A newcomer that all have connected with, and that is silent for so long as they
// meet, is stopped or cut off.
constexpr absl::Duration kNewcomerTime = absl::Seconds(30);

// How soon a wait for a view notices that the group has ended.
constexpr absl::Duration kAbortCheck = absl::Milliseconds(100);

bool AllFollowViews(const GroupMembers& members) {
  return std::all_of(
      members.members.begin(), members.members.end(),
      [](const GroupMember& member) { return member.job_rank >= 0; });
}

// Of those of `ranks`.
Topology TopologyOf(const GroupMembers& members,
                    const std::vector<int>& ranks) {
  std::vector<std::string> hosts;
  std::vector<int> host_of_rank;
  for (const int rank : ranks) {
    const GroupMember& member = members.members[static_cast<size_t>(rank)];
    const auto host = std::find(hosts.begin(), hosts.end(), member.host_key);
    host_of_rank.push_back(static_cast<int>(host - hosts.begin()));
    if (host == hosts.end()) hosts.push_back(member.host_key);
  }
  return Topology(std::move(host_of_rank));
}

int64_t NewestOf(const View& view) {
  return view.newcomers.empty() ? 0 : view.newcomers.back().number;
}

// "HOST_KEY,ADDRESS".
std::string TextOfMember(const std::string& host_key,
                         const std::string& address) {
  return absl::StrCat(host_key, ",", address);
}

bool PutTextOfMember(const std::string& text, GroupMember& member) {
  const size_t comma = text.rfind(',');
  if (comma == std::string::npos || comma + 1 == text.size()) return false;
  member.host_key = text.substr(0, comma);
  member.address = text.substr(comma + 1);
  return true;
}

// "ID;SECRET;MEMBER;...", by rank.
std::string TextOfGroup(const GroupMembers& group) {
  std::string text = absl::StrCat(group.id, ";", group.secret);
  for (const GroupMember& member : group.members) {
    absl::StrAppend(&text, ";", TextOfMember(member.host_key, member.address));
  }
  return text;
}

// Of a whole job: a member's rank is the job's.
absl::StatusOr<GroupMembers> GroupOfText(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ';');
  GroupMembers group;
  for (size_t i = 2; i < parts.size(); ++i) {
    GroupMember member;
    member.job_rank = static_cast<int>(i) - 2;
    if (!PutTextOfMember(parts[i], member)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kGroupVariable, " lists no members"));
    }
    group.members.push_back(std::move(member));
  }
  group.id = parts[0];
  group.secret = parts.size() > 1 ? parts[1] : "";
  return group;
}

absl::StatusOr<Listener> ListenFor(const RankGroupOptions& options) {
  if (!options.port_range.has_value())
    return Listener::Listen(absl::StrCat(options.address, ":0"));
  return Listener::ListenInRange(options.address, options.port_range->first,
                                 options.port_range->last);
}

absl::Status CheckAddress(const RankGroupOptions& options,
                          const GroupMembers& members) {
  const auto is_here = [&](const GroupMember& member) {
    return member.host_key == options.host_key;
  };
  if (!options.is_local_only ||
      std::all_of(members.members.begin(), members.members.end(), is_here)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the ranks are on several hosts, and rank ", options.rank,
      " does not know its address there: set MASTER_ADDR, or "
      "GLOO_SOCKET_IFNAME to the interface that others reach it over"));
}

// `address` is that of each member's listener.
absl::StatusOr<std::shared_ptr<PointToPoint>> ConnectMessages(
    const Listener& listener, const GroupMembers& members,
    std::string GroupMember::*address, const RankGroupOptions& options) {
  EstablishConfig config;
  config.job_id = members.id;
  config.generation = kFirstGeneration;
  config.rank = options.rank;
  config.secret = members.secret;
  config.deadline =
      options.clock->Now() + std::min(options.connect_timeout, kConnectTime);
  config.silence_limit = kConnectTime / 2;
  config.clock = options.clock;
  std::vector<PeerLink> connect_to;
  std::vector<PeerLink> accept_from;
  for (int peer = 0; peer < options.world_size; ++peer) {
    const PeerLink link = {peer, LinkRole::kMessages,
                           members.members[static_cast<size_t>(peer)].*address};
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
  return std::make_shared<PointToPoint>(options.rank, std::move(links),
                                        *options.clock);
}

// What became of the rank that was lost first; "": none is, or nobody tells.
std::string FirstLoss(const ViewClient* views) {
  if (views == nullptr) return "";
  const std::vector<View> all = views->Since(0);
  return all.empty() ? "" : all.front().why;
}

// Ends waits for others once ranks of the job are lost: they do not come.
class WatchedStore final : public GroupStore {
 public:
  WatchedStore(GroupStore& store, const ViewClient* views, Clock& clock)
      : store_(store), views_(views), clock_(clock) {}

  absl::Status Set(const std::string& key, const std::string& value) override {
    RETURN_IF_ERROR(CheckNobodyLost());
    return store_.Set(key, value);
  }

  absl::StatusOr<bool> Has(const std::string& key) override {
    return store_.Has(key);
  }

  // Does not wait in the store, which may not take a wait back.
  absl::StatusOr<std::string> Get(const std::string& key,
                                  absl::Duration limit) override {
    if (views_ == nullptr) return store_.Get(key, limit);
    const MonotonicTime deadline = clock_.Now() + limit;
    for (absl::Duration pause = absl::Milliseconds(1);; pause *= 2) {
      ASSIGN_OR_RETURN(const bool has, store_.Has(key));
      if (has) return store_.Get(key, limit);
      RETURN_IF_ERROR(CheckNobodyLost());
      if (clock_.Now() >= deadline)
        return absl::DeadlineExceededError("nobody has set it");
      absl::SleepFor(std::min(pause, kMostPause));
    }
  }

 private:
  [[nodiscard]] absl::Status CheckNobodyLost() const {
    const std::string loss = FirstLoss(views_);
    if (loss.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "no process group can be made once a rank is lost: ", loss));
  }

  static constexpr absl::Duration kMostPause = absl::Milliseconds(20);

  GroupStore& store_;
  const ViewClient* const views_;
  Clock& clock_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Connect(
    GroupStore& store, const RankGroupOptions& options) {
  ASSIGN_OR_RETURN(Listener listener, ListenFor(options));
  // One of its own: a rank may still await collectives' connections when another
  // makes those for messages.
  ASSIGN_OR_RETURN(const Listener message_listener, ListenFor(options));
  WatchedStore watched(store, options.views, *options.clock);
  ASSIGN_OR_RETURN(
      GroupMembers members,
      MeetMembers(watched, options.rank, options.world_size,
                  {options.host_key, listener.address().ToString(),
                   message_listener.address().ToString(),
                   options.views == nullptr ? -1 : options.job_rank},
                  options.connect_timeout, options.note));
  RETURN_IF_ERROR(CheckAddress(options, members));
  auto group = std::unique_ptr<RankGroup>(
      new RankGroup(options, std::move(members), std::move(listener)));
  ASSIGN_OR_RETURN(std::shared_ptr<Communicator> communicator,
                   group->ConnectRanks(group->members_, group->all_.id,
                                       /*cancel=*/nullptr));
  if (options.world_size <= kMaxRanksWithMessages) {
    ASSIGN_OR_RETURN(group->messages_,
                     ConnectMessages(message_listener, group->all_,
                                     &GroupMember::message_address, options));
    // All have come so far, so nobody awaits connections of collectives there.
    group->parts_ = group->messages_;
    if (group->follows_views_) {
      ASSIGN_OR_RETURN(group->parts_,
                       ConnectMessages(group->listener_, group->all_,
                                       &GroupMember::address, options));
    }
  }
  {
    MutexLock lock(group->mutex_);
    group->communicator_ = std::move(communicator);
    group->meeting_ = group->communicator_;
  }
  if (group->follows_views_) {
    group->subscription_ =
        options.views->Subscribe([raw = group.get()] { raw->OnView(); });
    // One may have come before.
    group->OnView();
  }
  return group;
}

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Join(
    std::string_view group, const RankGroupOptions& options) {
  ASSIGN_OR_RETURN(GroupMembers members,
                   GroupOfText({group.data(), group.size()}));
  if (members.members.size() != static_cast<size_t>(options.world_size)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kGroupVariable, " is of ", members.members.size(),
                     " ranks, not ", options.world_size));
  }
  RETURN_IF_ERROR(CheckAddress(options, members));
  if (options.views == nullptr)
    return absl::FailedPreconditionError("its worker tells of no views");
  ASSIGN_OR_RETURN(Listener listener, ListenFor(options));
  auto joins = std::unique_ptr<RankGroup>(
      new RankGroup(options, std::move(members), std::move(listener)));
  joins->members_.clear();
  joins->in_view_.clear();
  joins->newcomers_.clear();
  {
    MutexLock lock(joins->mutex_);
    joins->joined_ranks_.clear();
  }
  joins->subscription_ =
      options.views->Subscribe([raw = joins.get()] { raw->OnView(); });
  return joins;
}

RankGroup::RankGroup(const RankGroupOptions& options, GroupMembers members,
                     Listener listener)
    : options_(options),
      all_(std::move(members)),
      follows_views_(options.views != nullptr && AllFollowViews(all_)),
      clock_(*options.clock),
      listener_(std::move(listener)) {
  MutexLock lock(mutex_);
  for (int rank = 0; rank < options_.world_size; ++rank)
    members_.push_back(rank);
  in_view_ = joined_ranks_ = joined_members_ = members_;
  newcomers_.resize(in_view_.size());
}

RankGroup::~RankGroup() {
  subscription_.reset();
  // Those who hold a message may outlive the group.
  for (const auto& messages : {messages_, parts_}) {
    if (messages != nullptr) messages->Stop("the process group was destroyed");
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> RankGroup::ConnectRanks(
    const std::vector<int>& ranks, const std::string& job,
    const CancelToken* cancel) const {
  MeshConfig mesh;
  mesh.job_id = job;
  // Between two newcomers a view's ranks only get fewer: the same number of them
  // are the same ones.
  mesh.generation = kFirstGeneration + newest_ * (world_size() + 1) +
                    world_size() - static_cast<int>(in_view_.size());
  mesh.topology = TopologyOf(all_, ranks);
  for (size_t index = 0; index < ranks.size(); ++index) {
    if (ranks[index] == rank()) mesh.rank = static_cast<int>(index);
    mesh.peers.push_back(
        {static_cast<int>(index),
         all_.members[static_cast<size_t>(ranks[index])].address});
  }
  mesh.secret = all_.secret;
  mesh.deadline =
      clock_.Now() + std::min(options_.connect_timeout, kConnectTime);
  mesh.clock = options_.clock;
  return ConnectMesh(listener_, mesh, cancel);
}

int RankGroup::MemberIndex(int rank) const {
  const auto member = std::lower_bound(members_.begin(), members_.end(), rank);
  if (member == members_.end() || *member != rank) return -1;
  return static_cast<int>(member - members_.begin());
}

int RankGroup::JobRankOf(int rank) const {
  return rank < 0 ? -1 : all_.members[static_cast<size_t>(rank)].job_rank;
}

std::string RankGroup::LossText() const {
  return follows_views_ ? FirstLoss(options_.views) : "";
}

absl::Status RankGroup::OfJob(const absl::Status& status) const {
  if (!absl::IsUnavailable(status)) return status;
  return WithBlamedPeer(status, JobRankOf(BlamedPeer(status)));
}

absl::Status RankGroup::CheckNobodyLost(std::string_view operation) const {
  if (!has_lost_members()) return absl::OkStatus();
  std::vector<std::string> lost;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (MemberIndex(rank) >= 0) continue;
    lost.push_back(
        absl::StrCat("rank ", rank, " at ",
                     all_.members[static_cast<size_t>(rank)].address));
  }
  return absl::DataLossError(absl::StrCat(
      absl::string_view(operation.data(), operation.size()),
      " needs the part of ranks that are lost: ", absl::StrJoin(lost, ", "),
      " (", lost_text_, ")"));
}

std::string RankGroup::GroupText() const { return TextOfGroup(all_); }

std::string RankGroup::MemberText() const {
  return TextOfMember(options_.host_key, listener_.address().ToString());
}

absl::Status RankGroup::CheckNobodyIsNew(std::string_view operation) const {
  if (admitted_ == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(absl::string_view(operation.data(), operation.size()),
                   " needs connections for messages, which a rank that has "
                   "come in the place "
                   "of one that was lost does not have"));
}

absl::Status RankGroup::RunCollective(const CollectiveRequest& request,
                                      absl::Duration timeout) {
  std::shared_ptr<Communicator> mesh;
  {
    MutexLock lock(mutex_);
    mesh = communicator_;
  }
  return RunOn(mesh, members_, request, timeout);
}

absl::Status RankGroup::Meet(const CollectiveRequest& request,
                             absl::Duration timeout) {
  std::shared_ptr<Communicator> mesh;
  {
    MutexLock lock(mutex_);
    mesh = meeting_;
  }
  if (NewcomerToBlame(-1) < 0) return RunOn(mesh, in_view_, request, timeout);
  const absl::Status met =
      RunOn(mesh, in_view_, request, std::min(timeout, kNewcomerTime));
  if (!absl::IsDeadlineExceeded(met) || timeout <= kNewcomerTime) return met;
  // Its worker ends it then.
  return WithBlamedPeer(
      absl::UnavailableError(met.message()),
      JobRankOf(NewcomerToBlame(mesh->progress().blamed_rank)));
}

int RankGroup::NewcomerToBlame(int place) const {
  if (is_waiting()) return -1;
  int newcomer = -1;
  for (size_t i = 0; i < in_view_.size(); ++i) {
    if (newcomers_[i] <= settled_ || in_view_[i] == rank()) continue;
    if (newcomer < 0 || static_cast<int>(i) == place) newcomer = in_view_[i];
  }
  return newcomer;
}

absl::Status RankGroup::RunOn(const std::shared_ptr<Communicator>& mesh,
                              const std::vector<int>& ranks,
                              const CollectiveRequest& request,
                              absl::Duration timeout) {
  const absl::Status status = mesh->Run(request, clock_.Now() + timeout);
  if (status.ok()) return status;
  {
    MutexLock lock(mutex_);
    is_mesh_current_ = false;
  }
  if (!absl::IsUnavailable(status)) return status;
  const int blamed = mesh->progress().blamed_rank;
  return WithBlamedPeer(
      status, blamed < 0 ? -1 : JobRankOf(ranks[static_cast<size_t>(blamed)]));
}

bool RankGroup::IsLoss(const absl::Status& failure) const {
  if (!follows_views_) return false;
  {
    MutexLock lock(mutex_);
    if (is_aborted_) return false;
    if (IsOutdatedLocked()) return true;
  }
  return absl::IsUnavailable(failure) && BlamedPeer(failure) >= 0;
}

bool RankGroup::HasSameRanks(const View& view,
                             const std::vector<int>& ranks) const {
  for (int rank = 0; rank < world_size(); ++rank) {
    if (view.Has(JobRankOf(rank)) !=
        std::binary_search(ranks.begin(), ranks.end(), rank)) {
      return false;
    }
  }
  return true;
}

bool RankGroup::IsOutdatedLocked() const {
  // Also if another one has the ranks of this: one of them is a newcomer.
  for (const View& view : options_.views->Since(joined_view_)) {
    if (NewestOf(view) != joined_newest_ || !HasSameRanks(view, joined_ranks_))
      return true;
  }
  return false;
}

bool RankGroup::is_outdated() const {
  if (!follows_views_) return false;
  MutexLock lock(mutex_);
  return !is_aborted_ && IsOutdatedLocked();
}

void RankGroup::SetOutdatedCallback(std::function<void()> on_outdated) {
  {
    MutexLock lock(mutex_);
    on_outdated_ = on_outdated;
  }
  if (is_outdated()) on_outdated();
}

void RankGroup::OnView() {
  std::function<void()> on_outdated;
  {
    MutexLock lock(mutex_);
    if (!IsOutdatedLocked()) return;
    if (connecting_ != nullptr) connecting_->Cancel("there is a newer view");
    for (const auto& mesh : {communicator_, meeting_}) {
      if (mesh != nullptr) mesh->Abort("there is another view");
    }
    // What travels there needs all ranks, so nothing does any more.
    if (parts_ != nullptr) parts_->Abort("a rank is lost");
    on_outdated = on_outdated_;
  }
  if (on_outdated) on_outdated();
}

bool RankGroup::TakeNextView() {
  const int64_t newest_before = newest_;
  const std::vector<int> before = in_view_;
  bool has_changed = false;
  for (const View& view : options_.views->Since(last_view_)) {
    last_view_ = view.number;
    if (std::erase_if(members_, [&](int rank) {
          return !view.Has(JobRankOf(rank));
        }) > 0) {
      for (std::string* text : {&lost_text_, &untold_loss_})
        absl::StrAppend(text, text->empty() ? "" : ", ", view.why);
    }
    has_changed = has_changed || NewestOf(view) != newest_before ||
                  !HasSameRanks(view, before);
    in_view_.clear();
    newest_ = NewestOf(view);
    for (int rank = 0; rank < world_size(); ++rank) {
      if (view.Has(JobRankOf(rank))) in_view_.push_back(rank);
    }
    newcomers_.clear();
    for (const int rank : in_view_)
      newcomers_.push_back(view.NewcomerOf(JobRankOf(rank)));
    for (const Newcomer& newcomer : view.newcomers) {
      for (GroupMember& member : all_.members) {
        if (member.job_rank == newcomer.rank)
          (void)PutTextOfMember(newcomer.member, member);
      }
    }
  }
  // A newcomer waits for the first that has it.
  return has_changed && (!members_.empty() || IsInView());
}

absl::Status RankGroup::WaitForNextView(int lost_job_rank) {
  if (TakeNextView()) return absl::OkStatus();
  for (int rank = 0; rank < world_size(); ++rank) {
    if (JobRankOf(rank) == lost_job_rank) awaits_view_without_ = rank;
  }
  const absl::Cleanup over = [this] { awaits_view_without_ = -1; };
  int64_t told_view = -1;
  while (!TakeNextView()) {
    // A view that was about others has made the worker forget it.
    if (lost_job_rank >= 0 && told_view != last_view_)
      options_.views->TellLost(lost_job_rank, last_view_);
    told_view = last_view_;
    // Its worker decides how long it takes: the job may wait for other workers.
    const absl::Status came = options_.views->WaitForView(
        last_view_, lost_job_rank, clock_.Now() + kAbortCheck);
    if (!came.ok() && !absl::IsDeadlineExceeded(came)) return came;
    MutexLock lock(mutex_);
    if (is_aborted_) return absl::AbortedError("the process group is gone");
  }
  return absl::OkStatus();
}

void RankGroup::TellLoss() {
  const std::string text = std::exchange(untold_loss_, "");
  if (text.empty() || options_.on_change == nullptr ||
      members_.front() != rank())
    return;
  options_.on_change(absl::StrCat(text, "; ", members_.size(), " of ",
                                  world_size(), " ranks go on"));
}

bool RankGroup::IsInView() const {
  return std::binary_search(in_view_.begin(), in_view_.end(), rank());
}

absl::Status RankGroup::JoinView(absl::Status failure) {
  while (true) {
    if (!WaitForNextView(BlamedPeer(failure)).ok()) return failure;
    if (!IsInView()) {
      return absl::AbortedError(
          absl::StrCat("the others go on without this rank: ", lost_text_));
    }
    {
      MutexLock lock(mutex_);
      joined_view_ = last_view_;
      joined_ranks_ = in_view_;
      joined_newest_ = newest_;
      is_mesh_current_ = false;
    }
    std::shared_ptr<Communicator> mesh;
    failure = ConnectInView(in_view_, all_.id, mesh);
    if (failure.ok()) {
      MutexLock lock(mutex_);
      meeting_.swap(mesh);
      return absl::OkStatus();
    }
    if (!IsLoss(failure)) return failure;
  }
}

absl::Status RankGroup::ConnectInView(const std::vector<int>& ranks,
                                      const std::string& job,
                                      std::shared_ptr<Communicator>& mesh) {
  const auto cancel = std::make_shared<CancelToken>();
  {
    MutexLock lock(mutex_);
    connecting_ = cancel;
    if (is_aborted_) return absl::AbortedError("the process group is gone");
    if (IsOutdatedLocked()) return absl::AbortedError("there is another view");
  }
  absl::StatusOr<std::shared_ptr<Communicator>> connected =
      ConnectRanks(ranks, job, cancel.get());
  MutexLock lock(mutex_);
  connecting_ = nullptr;
  if (is_aborted_) return absl::AbortedError("the process group is gone");
  if (!connected.ok()) {
    const int blamed = BlamedPeer(connected.status());
    if (blamed < 0) return connected.status();
    // Whatever is wrong with it, another view may be without it.
    return WithBlamedPeer(absl::UnavailableError(connected.status().message()),
                          JobRankOf(ranks[static_cast<size_t>(blamed)]));
  }
  if (IsOutdatedLocked()) return absl::AbortedError("there is another view");
  mesh = *std::move(connected);
  return absl::OkStatus();
}

absl::Status RankGroup::ConnectMembers(int64_t admitted) {
  admitted_ = std::max(admitted_, admitted);
  members_.clear();
  for (size_t i = 0; i < in_view_.size(); ++i) {
    if (newcomers_[i] <= admitted_) members_.push_back(in_view_[i]);
  }
  std::shared_ptr<Communicator> mesh;
  {
    MutexLock lock(mutex_);
    mesh = meeting_;
  }
  if (members_.size() < in_view_.size() && !is_waiting()) {
    RETURN_IF_ERROR(
        ConnectInView(members_, absl::StrCat(all_.id, "/members"), mesh));
  }
  {
    MutexLock lock(mutex_);
    communicator_.swap(mesh);  // whose end waits for a thread
    joined_members_ = is_waiting() ? in_view_ : members_;
    is_mesh_current_ = true;
  }
  if (!is_waiting()) TellLoss();
  return absl::OkStatus();
}

void RankGroup::Admit() {
  members_ = in_view_;
  admitted_ = std::max(admitted_, newest_);
  std::shared_ptr<Communicator> old;
  MutexLock lock(mutex_);
  old = std::exchange(communicator_, meeting_);
  joined_members_ = members_;
}

void RankGroup::Settle(int64_t settled) {
  const int64_t before = std::exchange(settled_, std::max(settled_, settled));
  if (options_.on_change == nullptr || LowestSettled() != rank()) return;
  std::vector<int> came;
  for (size_t i = 0; i < in_view_.size(); ++i) {
    if (newcomers_[i] > before && newcomers_[i] <= settled_)
      came.push_back(in_view_[i]);
  }
  if (came.empty()) return;
  options_.on_change(
      absl::StrCat("new processes have the places and the state of rank ",
                   absl::StrJoin(came, ", "), "; ", members_.size(), " of ",
                   world_size(), " ranks go on"));
}

int RankGroup::LowestSettled() const {
  for (size_t i = 0; i < in_view_.size(); ++i) {
    if (newcomers_[i] <= settled_ && MemberIndex(in_view_[i]) >= 0)
      return in_view_[i];
  }
  return -1;
}

RankActivity RankGroup::activity(std::string_view collective,
                                 int64_t number) const {
  RankActivity activity;
  {
    MutexLock lock(mutex_);
    const CollectiveProgress progress = communicator_ == nullptr
                                            ? CollectiveProgress{}
                                            : communicator_->progress();
    activity.done = progress.completed;
    // After a failure it goes on to say whom it waited for.
    if (progress.waiting_for_rank >= 0 && is_mesh_current_) {
      activity.awaited_rank =
          joined_members_[static_cast<size_t>(progress.waiting_for_rank)];
      activity.operation =
          absl::StrCat(absl::string_view(collective.data(), collective.size()),
                       ", collective ", number, " of its process group");
    }
  }
  if (const int lost = awaits_view_without_; lost >= 0) {
    activity.awaited_rank = lost;
    activity.operation =
        "a view without it: connections with it have broken, and the worker of "
        "this rank has not said how to go on";
  }
  for (const auto& messages : {messages_, parts_}) {
    if (messages == nullptr) continue;
    const PointToPoint::Awaited awaited = messages->awaited();
    activity.done += awaited.over;
    if (activity.awaited_rank >= 0 || awaited.rank == PointToPoint::kAnyRank)
      continue;
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
  RETURN_IF_ERROR(CheckNobodyIsNew("this"));
  RETURN_IF_ERROR(Messages().status());
  const MonotonicTime deadline = clock_.Now() + timeout;
  const MessageKey key = {MessageKey::Kind::kCollective, ++exchanges_};
  const auto own = static_cast<size_t>(rank());
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (size_t peer = 0; peer < from.size(); ++peer) {
    if (peer == own || !from[peer].has_value()) continue;
    transfers.push_back(
        parts_->Receive(static_cast<int>(peer), key, *from[peer]));
  }
  // Each begins with the next rank, so that not all send to the first at once.
  for (size_t distance = 1; distance < to.size(); ++distance) {
    const size_t peer = (own + distance) % to.size();
    if (!to[peer].has_value()) continue;
    transfers.push_back(parts_->Send(static_cast<int>(peer), key, *to[peer]));
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
        parts_->Wait(*transfer, status.ok() ? deadline : clock_.Now()));
  }
  return OfJob(status);
}

absl::Status RankGroup::MonitoredBarrier(absl::Duration timeout,
                                         bool names_all) {
  RETURN_IF_ERROR(CheckNobodyIsNew("monitored_barrier"));
  RETURN_IF_ERROR(Messages().status());
  const MessageKey key = {MessageKey::Kind::kCollective, ++exchanges_};
  std::array<std::byte, 1> word = {};
  if (rank() != 0) {
    RETURN_IF_ERROR(OfJob(
        parts_->Wait(*parts_->Send(0, key, word), clock_.Now() + timeout)));
    const absl::Status status = parts_->Wait(*parts_->Receive(0, key, word),
                                             clock_.Now() + 2 * timeout);
    if (!status.ok() || word[0] == std::byte{0}) return OfJob(status);
    return absl::DeadlineExceededError(
        "rank 0 misses other ranks in monitored_barrier: see its error");
  }
  const MonotonicTime deadline = clock_.Now() + timeout;
  std::vector<std::string> missing;
  for (int peer = 1; peer < world_size(); ++peer) {
    const absl::Status status =
        parts_->Wait(*parts_->Receive(peer, key, word), deadline);
    if (status.ok()) continue;
    if (!absl::IsDeadlineExceeded(status)) return OfJob(status);
    missing.push_back(absl::StrCat(peer));
    if (!names_all) break;
  }
  word[0] = missing.empty() ? std::byte{0} : std::byte{1};
  std::vector<std::shared_ptr<Transfer>> words;
  for (int peer = 1; peer < world_size(); ++peer)
    words.push_back(parts_->Send(peer, key, word));
  for (const auto& sent : words) {
    (void)parts_->Wait(*sent, std::max(deadline, clock_.Now()));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("monitored_barrier: rank ", absl::StrJoin(missing, ", "),
                   " did not come within ", absl::FormatDuration(timeout)));
}

void RankGroup::Abort(std::string_view why) {
  {
    MutexLock lock(mutex_);
    is_aborted_ = true;
    if (connecting_ != nullptr) connecting_->Cancel(why);
    for (const auto& mesh : {communicator_, meeting_}) {
      if (mesh != nullptr) mesh->Abort(why);
    }
  }
  for (const auto& messages : {messages_, parts_}) {
    if (messages != nullptr) messages->Abort(why);
  }
}

}  // namespace ringmaster
