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
  };

  // `timeout`: of any one wait for the others. The group outlives the log.
  OperationLog(RankGroup& group, absl::Duration timeout)
      : group_(group), timeout_(timeout) {}

  void Run(Operation operation);
  void Commit();

  // Joins a view that has come meanwhile, if there is one: the others wait for
  // that.
  void CatchUp();

 private:
  struct Entry {
    Operation operation;
    absl::Status status;  // OK or DATA_LOSS, unless the group has failed
  };

  // The barrier, in as many views as it takes.
  [[nodiscard]] absl::Status Agree();
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
  int64_t commits_ = 0;
  bool is_committing_ = false;
  std::vector<Entry> entries_;  // since the last commit
  absl::Status failure_;        // of the group
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_OPERATION_LOG_H_
