// RankGroup is a rank's part in one process group of a PyTorch program: the
// connections to the other ranks, and what the group's operations are made of.
//
// Where its ranks follow views (worker/views), those that are left can go on
// without the others: they connect anew in each view that is without a member, or
// has a newcomer. What was under way then has failed everywhere; OperationLog does
// it again. A newcomer waits among the others until they admit it, all at one
// place of their program; until then it is no member.
// It knows nothing of PyTorch; buffers are bytes in host memory.
// Thread-safety: RunCollective, Exchange, MonitoredBarrier, JoinView, Meet,
// ConnectMembers, Admit and what they change (members, admitted) from one thread
// at a time; the rest from any.
#ifndef RINGMASTER_WORKER_TORCH_RANK_GROUP_H_
#define RINGMASTER_WORKER_TORCH_RANK_GROUP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/config/port_range.h"
#include "common/sync/mutex.h"
#include "common/transport/cancel_token.h"
#include "common/transport/tcp.h"
#include "worker/collective/communicator.h"
#include "worker/torch/group_store.h"
#include "worker/torch/point_to_point.h"
#include "worker/torch/rendezvous.h"
#include "worker/torch/wait_watch.h"
#include "worker/views/view_client.h"

namespace ringmaster {

struct RankGroupOptions {
  int rank = 0;
  int world_size = 1;
  // Of all ranks to come.
  absl::Duration connect_timeout = absl::Minutes(30);
  // Of a wait for ranks to come.
  WaitNote note = {};
  // Where this rank listens, as in "host:port": see AddressTowards.
  std::string address = "127.0.0.1";
  std::optional<PortRange> port_range = {};  // nullopt: any
  bool is_local_only = false;  // for want of a better one, it is of loopback
  std::string host_key;        // of this host; ThisHostKey
  Clock* clock = nullptr;      // outlives the group
  // Null: when a rank is lost, the group has failed. Outlives the group.
  ViewClient* views = nullptr;
  int job_rank = -1;  // as views have it: this process's RANK
  // Called on the lowest rank that is left, with what became of the others: when
  // some are lost, and when others have taken their places. May be empty.
  std::function<void(const std::string& line)> on_change = {};
};

class RankGroup {
 public:
  // Each rank of a group connects with every other, for messages: beyond this
  // size of a group there are none, and no Exchange.
  static constexpr int kMaxRanksWithMessages = 256;

  //   DEADLINE_EXCEEDED    names ranks that have not come
  //   FAILED_PRECONDITION  another rank is not of this group
  //   FAILED_PRECONDITION  or is on another host, and this one is_local_only
  //   UNIMPLEMENTED        another rank uses another back end: it says why
  //   RESOURCE_EXHAUSTED   no port of the range is free
  //   UNAVAILABLE          the store, or an address, is not to be had
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RankGroup>> Connect(
      GroupStore& store, const RankGroupOptions& options);
  // Makes a newcomer's: it has no members before JoinView, which waits for a view
  // that has this rank. `group` is GroupText of another rank.
  //   INVALID_ARGUMENT     no such text, or of another size
  //   FAILED_PRECONDITION  no views are given; or is_local_only, and another rank
  //                        is on another host
  //   RESOURCE_EXHAUSTED, UNAVAILABLE  as above
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RankGroup>> Join(
      std::string_view group, const RankGroupOptions& options);
  // Ends all connections, and the threads.
  ~RankGroup();

  [[nodiscard]] int rank() const { return options_.rank; }
  [[nodiscard]] int world_size() const { return options_.world_size; }

  // All of its ranks follow views.
  [[nodiscard]] bool follows_views() const { return follows_views_; }
  // The ranks that are left, ascending; at first all.
  [[nodiscard]] const std::vector<int>& members() const { return members_; }
  // The place of `rank` among them; -1: it is lost.
  [[nodiscard]] int MemberIndex(int rank) const;
  [[nodiscard]] bool has_lost_members() const {
    return members_.size() < static_cast<size_t>(world_size());
  }
  // What became of the rank of the job that was lost first; "": none is. From any
  // thread.
  [[nodiscard]] std::string LossText() const;
  // What newcomers need of it (Join), without spaces: with its secret.
  [[nodiscard]] std::string GroupText() const;
  // What the others need to reach this newcomer (Joins).
  [[nodiscard]] std::string MemberText() const;
  // DATA_LOSS: a rank is lost, and `operation` needs its part; names it, and why.
  [[nodiscard]] absl::Status CheckNobodyLost(std::string_view operation) const;

  // Communicator::Run, among the members: ranks in requests and chunks of
  // buffers are places among these.
  [[nodiscard]] absl::Status RunCollective(const CollectiveRequest& request,
                                           absl::Duration timeout);

  // True if `failure`, of an operation, is that a rank is lost or that there is
  // another view: JoinView may help.
  [[nodiscard]] bool IsLoss(const absl::Status& failure) const;
  // Waits for the view that `failure` calls for, and connects with all that are in
  // it. They are to Meet then, and to call ConnectMembers.
  //   `failure`  no view comes on its account
  //   ABORTED    the view is without this rank; or of Abort
  //   others     of ConnectMesh
  [[nodiscard]] absl::Status JoinView(absl::Status failure);
  // A collective of all in the view, also of newcomers that wait. It waits no
  // longer than half a minute for these: then it is as if one of them were lost.
  [[nodiscard]] absl::Status Meet(const CollectiveRequest& request,
                                  absl::Duration timeout);
  // Makes those in the view members but the newcomers after the `admitted`-th,
  // and connects them with each other. Errors of ConnectMesh.
  [[nodiscard]] absl::Status ConnectMembers(int64_t admitted);
  // The newest newcomer that has been admitted, that is in the view, and that has
  // the program's state; 0: none.
  [[nodiscard]] int64_t admitted() const { return admitted_; }
  [[nodiscard]] int64_t newest() const { return newest_; }
  [[nodiscard]] int64_t settled() const { return settled_; }
  // This rank is a newcomer that has not been admitted.
  [[nodiscard]] bool is_waiting() const { return MemberIndex(rank()) < 0; }
  // Makes all in the view members.
  void Admit();
  // From now on newcomers up to the `settled`-th have the program's state.
  void Settle(int64_t settled);
  // The lowest member that has it; -1: none is left.
  [[nodiscard]] int LowestSettled() const;
  // There is a view to join.
  [[nodiscard]] bool is_outdated() const;
  // Has `on_outdated` called, on any thread, when a view comes that is without a
  // member. Once, before operations.
  void SetOutdatedCallback(std::function<void()> on_outdated);

  // Sends to[r] to each rank r, and receives from[r] from it; a nullopt is
  // nothing, which then is so at the other side, too. Both have one entry for
  // each rank; those of this rank are copied. All ranks call it in the same
  // order.
  //   as of PointToPoint::Wait
  //   UNIMPLEMENTED  the group is too large for messages
  //   DATA_LOSS      a newcomer is among the ranks, which has no connections for it
  using Parts = std::vector<std::optional<std::span<std::byte>>>;
  [[nodiscard]] absl::Status Exchange(const Parts& to, const Parts& from,
                                      absl::Duration timeout);

  // Returns once all ranks have called it. At rank 0 an error names the ranks
  // that have not within `timeout`: the first, or all of them if
  // `names_all`; the others wait as long again for its word.
  [[nodiscard]] absl::Status MonitoredBarrier(absl::Duration timeout,
                                              bool names_all);

  // What it does now; the operation that runs is `collective`, the group's
  // `number`-th.
  [[nodiscard]] RankActivity activity(std::string_view collective,
                                      int64_t number) const;

  // UNIMPLEMENTED: the group is too large for messages. They may outlive it.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<PointToPoint>> Messages() const;

  // Fails everything under way and to come.
  void Abort(std::string_view why);

 private:
  RankGroup(const RankGroupOptions& options, GroupMembers members,
            Listener listener);

  // Of those of `ranks`, under `job`.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> ConnectRanks(
      const std::vector<int>& ranks, const std::string& job,
      const CancelToken* cancel) const;
  // The same, until a newer view comes, into `mesh`.
  [[nodiscard]] absl::Status ConnectInView(const std::vector<int>& ranks,
                                           const std::string& job,
                                           std::shared_ptr<Communicator>& mesh);
  [[nodiscard]] absl::Status RunOn(const std::shared_ptr<Communicator>& mesh,
                                   const std::vector<int>& ranks,
                                   const CollectiveRequest& request,
                                   absl::Duration timeout);
  // A newcomer in the view that has not the program's state, the `place`-th there
  // if that is one, for members to blame for a silence; -1: there is none.
  [[nodiscard]] int NewcomerToBlame(int place) const;
  // As views have a rank, and as the group's members have it; -1: of -1.
  [[nodiscard]] int JobRankOf(int rank) const;
  // A message's error, with the rank at fault as views have it.
  [[nodiscard]] absl::Status OfJob(const absl::Status& status) const;
  [[nodiscard]] bool IsInView() const;
  [[nodiscard]] bool HasSameRanks(const View& view,
                                  const std::vector<int>& ranks) const;
  // Takes the ranks of the newest view that has others; false: there is none yet.
  [[nodiscard]] bool TakeNextView();
  [[nodiscard]] absl::Status WaitForNextView(int lost_job_rank);
  // Looks for views to join on the client's thread.
  void OnView();
  void TellLoss();
  [[nodiscard]] absl::Status CheckNobodyIsNew(std::string_view operation) const;
  [[nodiscard]] bool IsOutdatedLocked() const REQUIRES(mutex_);

  const RankGroupOptions options_;
  GroupMembers all_;  // job ranks stay; where they are, newcomers change
  const bool follows_views_;
  Clock& clock_;
  // Of collectives; members of later views come there.
  const Listener listener_;
  std::shared_ptr<PointToPoint> messages_;  // null: the group is too large
  // Of Exchange: messages_, or another one, which a loss ends, where messages go
  // on among those that are left.
  std::shared_ptr<PointToPoint> parts_;
  uint32_t exchanges_ = 0;

  // Of the operations' thread.
  std::vector<int> members_;
  std::vector<int> in_view_;        // members_, and newcomers that wait
  std::vector<int64_t> newcomers_;  // their numbers (View::NewcomerOf)
  int64_t admitted_ = 0;
  int64_t newest_ = 0;
  int64_t settled_ = 0;
  int64_t last_view_ = 0;    // that was looked at
  std::string lost_text_;    // what became of those who are not members
  std::string untold_loss_;  // the last part of it

  mutable Mutex mutex_;
  std::shared_ptr<Communicator> communicator_ GUARDED_BY(mutex_);  // members'
  std::shared_ptr<Communicator> meeting_ GUARDED_BY(mutex_);  // of in_view_
  std::shared_ptr<CancelToken> connecting_ GUARDED_BY(mutex_);
  std::vector<int> joined_members_ GUARDED_BY(mutex_);  // of communicator_
  // in_view_, newest_ and last_view_ when it connected.
  std::vector<int> joined_ranks_ GUARDED_BY(mutex_);
  int64_t joined_newest_ GUARDED_BY(mutex_) = 0;
  int64_t joined_view_ GUARDED_BY(mutex_) = 0;
  bool is_aborted_ GUARDED_BY(mutex_) = false;
  std::function<void()> on_outdated_ GUARDED_BY(mutex_);
  // communicator_ is of joined_members_, and none of its collectives has failed.
  bool is_mesh_current_ GUARDED_BY(mutex_) = true;
  std::atomic<int> awaits_view_without_{-1};
  ViewClient::Subscription subscription_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_RANK_GROUP_H_
