// OperationLog has the ranks of a process group do each operation whole, or
// again without those that were lost in it: all that are left end with equal
// results.
//
// Operations belong to one commit after another: a single one, or all of a
// backward pass, so that a step's gradients are of the same ranks. A commit ends
// with a barrier. Who passes it knows that all members hold the results of the
// commit's operations. So when a member is lost, either somebody who is left has
// passed it: then all hold the results, and learn from him that they are
// committed. Or nobody has, and all do the operations again in the next view,
// from inputs that were kept. It is a two-phase commit whose decision anybody
// can tell who knows it.
// Invariant: the numbers of commits of two members differ by one at most, and
// the member that lacks one is inside Commit.
//
// Newcomers are taken in by a commit of its own, Admit, which all members make at
// one place of their program, and where the newcomer begins. Whether there are
// any is a matter of the view in which the commit before was made, which is the
// same for all; so it costs nothing to ask.
//
// Where the group follows no views, operations just run, and the first failure
// is the group's.
// Thread-compatible.
#ifndef RINGMASTER_WORKER_TORCH_OPERATION_LOG_H_
#define RINGMASTER_WORKER_TORCH_OPERATION_LOG_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/torch/rank_group.h"

namespace ringmaster {

class OperationLog {
 public:
  struct Operation {
    // Does it, among the group's members. DATA_LOSS: it cannot be done without
    // those that are lost; the same on all members, and later operations can.
    std::function<absl::Status()> run;
    // Keeps what `run` overwrites, and brings it back.
    std::function<absl::Status()> keep;
    std::function<absl::Status()> restore;
    // Called once, at its commit, with its end.
    std::function<void(const absl::Status& status)> finish;
    bool is_of_gradients = false;
  };

  // `timeout`: of any one wait for the others. The group outlives the log.
  OperationLog(RankGroup& group, absl::Duration timeout)
      : group_(group),
        timeout_(timeout),
        commits_(group.members().empty() ? kNotJoined : 0) {}

  void Run(Operation operation);
  void Commit();

  // Joins a view that has come meanwhile, if there is one: the others wait for
  // that.
  void CatchUp();

  // Of a newcomer, before all else: waits until the others have admitted it.
  //   DATA_LOSS  those that have the program's state are lost
  //   others     of RankGroup::JoinView
  [[nodiscard]] absl::Status Join();
  // Admits the newcomers that wait. Returns true if there were any: then the
  // members that are settled have the program's state, and the others are to get
  // it. All members call it at the same place. Errors are the group's.
  [[nodiscard]] absl::StatusOr<bool> Admit();

  // The members whose operations the last commit of gradients is of that was made
  // since the last call: the last commit, if none was of gradients. Called once a
  // step.
  [[nodiscard]] const std::vector<int>& TakeContributors() {
    has_gradients_ = false;
    return contributors_;
  }

 private:
  struct Entry {
    Operation operation;
    absl::Status status;  // OK or DATA_LOSS, unless the group has failed
  };

  // The barrier, in as many views as it takes.
  [[nodiscard]] absl::Status Agree();
  // Tells all in the view how far this rank is, and hears how far they are.
  [[nodiscard]] absl::Status Meet(absl::Duration timeout);
  // Joins the view that `failure` calls for. Returns true if others have
  // committed what is not committed here.
  [[nodiscard]] absl::StatusOr<bool> JoinView(absl::Status failure);
  // Joins views, and runs all entries again, until no member is lost meanwhile.
  // Returns true if they are committed instead.
  [[nodiscard]] absl::StatusOr<bool> RunAgain(absl::Status failure);
  // The first failure that is none of the entry's alone.
  [[nodiscard]] absl::Status RunEntry(Entry& entry);
  // For good.
  void Fail(const absl::Status& failure);

  RankGroup& group_;
  const absl::Duration timeout_;
  static constexpr int64_t kNotJoined = -1;

  int64_t commits_;            // kNotJoined: of a newcomer that is not admitted
  int64_t newest_commit_ = 0;  // of all, when they met last
  // What RankGroup::newest was in the view in which the last commit was made, or
  // tried.
  int64_t newest_ = 0;
  std::vector<int> running_with_;  // the members when entries were run
  std::vector<int> contributors_;
  bool has_gradients_ = false;  // some were committed in this step
  bool is_committing_ = false;
  std::vector<Entry> entries_;  // since the last commit
  absl::Status failure_;        // of the group
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_OPERATION_LOG_H_
