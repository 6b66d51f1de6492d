// ProcessGroupRingmaster is the back end `ringmaster` of torch.distributed: a
// c10d::ProcessGroup for tensors in host memory, over Ringmaster's connections.
//
// It has every collective that gloo has, all-reduce of sparse tensors included,
// and reduce_scatter and all_to_all beside them. Operations run in the order in which they were started, one at a time;
// messages (send, recv) beside them.
// Sums, averages, minima and maxima of float, double, half, bfloat16, int and long are
// reduced as they travel. Other dtypes and operations go by an all-gather, so
// they move and keep n times the bytes.
// RINGMASTER_TORCH_WIRE=bfloat16 or float16 has float sums and averages of more
// than 64 KiB travel in half the bytes.
// A rank that waits for another for longer than RINGMASTER_TORCH_PATIENCE (30s)
// says so on standard error.
// Where Ringmaster started the program, its ranks go on without those that are
// lost (operation_log.h): what is under way is done again without them, and what
// needs their part fails and names them. Sums that are started in a backward pass
// are those of gradients, which DistributedDataParallel has divided by the number
// of ranks at the start: they are brought to the mean of those that are left.
// A process that takes the place of a lost rank has no peers before they admit it,
// and then their state (attach.py).
// Any other failure or timeout of a collective fails all later operations of the
// group, and its message names the rank that was waited for.
// The end of a group waits for what is under way, for up to ten seconds.
// Thread-safety: as of PyTorch's: one thread starts operations.
#ifndef RINGMASTER_WORKER_TORCH_PROCESS_GROUP_H_
#define RINGMASTER_WORKER_TORCH_PROCESS_GROUP_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/sync/periodic_thread.h"
#include "common/tensor/dtype.h"
#include "worker/torch/operation_log.h"
#include "worker/torch/operation_queue.h"
#include "worker/torch/rank_group.h"
#include "worker/torch/wait_watch.h"

namespace ringmaster {

// A rank uses another back end, so no group of ours can be made: says which and
// why.
class OthersDecline : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ProcessGroupRingmaster final : public c10d::ProcessGroup {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  // Meets the other ranks in `store`. `timeout` is also that of operations that
  // have none of their own. Throws OthersDecline, or std::runtime_error that names
  // who is missing.
  ProcessGroupRingmaster(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                         int size, std::chrono::milliseconds timeout);
  ~ProcessGroupRingmaster() override;

  const std::string getBackendName() const override { return "ringmaster"; }

  // Tells the worker, once, that the ranks have met, and whether they can go on
  // without each other. Idempotent; called by the first operation at the latest.
  void TellMet();
  // RankGroup::LossText.
  std::string LossText() const { return group_->LossText(); }

  // This process takes the place of a rank that was lost. Until Join has returned,
  // it has no peers: it answers itself the collectives that
  // DistributedDataParallel makes at its start, as a group of one does.
  bool is_joining() const { return is_joining_; }
  // Waits until the others have admitted it (OperationLog::Join).
  void Join();
  // Tells the worker that this rank takes in newcomers: it calls Admit from now
  // on. Returns false if there can be none.
  bool TakeNewcomers();
  // OperationLog::Admit and TakeContributors, RankGroup::LowestSettled and Settle, in
  // the order of operations.
  bool Admit();
  std::vector<int> Contributors();
  int LowestSettled();
  void Settle();
  // Broadcasts the tensor of the lowest rank that is settled.
  WorkPtr BroadcastSettled(at::Tensor tensor);
  // The next broadcasts that have stand-ins get these in the place of what others
  // would send, each one.
  void Answer(const Tensors& answers);

  // Broadcasts that this thread starts have the lowest rank that is left in the
  // place of a root that is lost: all ranks have the same to give.
  static thread_local bool roots_have_stand_ins;

  WorkPtr broadcast(Tensors& tensors,
                    const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors,
                    const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(
      Tensors& tensors,
      const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input,
      const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options,
                        bool waits_for_all) override;

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  void setSequenceNumberForGroup() override {}
  // How many collectives this rank has started.
  uint64_t getSequenceNumberForGroup() override { return started_; }

 private:
  struct Call {
    absl::Duration timeout;
    bool is_of_gradients = false;  // it was started in a backward pass
  };
  // What an operation does, on the queue. May throw.
  using Body = std::function<absl::Status(const Call& call)>;

  // What an operation does to tensors.
  struct Effect {
    Tensors results;           // its future holds them
    Tensors overwritten = {};  // that hold its input, or may
    bool needs_all = false;    // it has no result without a rank's part
    int needs_rank = -1;       // or without this one's
    // Does it in a group of this rank alone; null: it needs others.
    std::function<void()> alone = nullptr;
  };
  class KeptTensors;
  class Backward;

  // Has `body` run after all that was started, and waits for its end. Throws its
  // error.
  void RunInOrder(const std::function<absl::Status()>& body);
  // Starts a collective; `name` is a literal.
  WorkPtr Start(c10d::OpType op, const char* name, Effect effect,
                std::chrono::milliseconds timeout, Body body);

  [[nodiscard]] absl::Status AllReduce(at::Tensor& tensor, c10d::ReduceOp op,
                                       const Call& call);
  // The sum of sparse tensors, each with its own indices.
  [[nodiscard]] absl::Status AllReduceSparse(at::Tensor& tensor,
                                             const Call& call);
  [[nodiscard]] absl::Status BroadcastFrom(int root, at::Tensor& tensor,
                                           const Call& call);
  // `all` has a row for each rank; this rank's is complete.
  [[nodiscard]] absl::Status AllGatherRows(at::Tensor& all, const Call& call);
  // tensors[r] becomes rank r's `input`.
  [[nodiscard]] absl::Status AllGatherInto(Tensors& tensors,
                                           const at::Tensor& input,
                                           const Call& call);
  // Row r of the sum of `rows` becomes `output` at rank r; `rows` is scratch.
  [[nodiscard]] absl::Status ReduceScatterRows(at::Tensor& rows,
                                               at::Tensor& output,
                                               c10d::ReduceOp op,
                                               const Call& call);
  // Gradients' sums as if those that are lost had added the others' mean.
  void BringToMean(at::Tensor& sum, c10d::ReduceOp op, const Call& call) const;

  // Of those that are left.
  int member_count() const {
    return static_cast<int>(group_->members().size());
  }
  int member_index() const { return group_->MemberIndex(rank_); }

  // Throws if the group is too large for messages.
  std::shared_ptr<PointToPoint> Messages() const;

  const pid_t process_;  // children that were forked do not have its threads
  const std::chrono::milliseconds timeout_;
  const std::optional<DType> wire_;  // of large float sums
  uint64_t started_ = 0;
  std::atomic<bool> has_told_{false};
  std::atomic<bool> is_joining_{false};
  std::deque<at::Tensor> answers_;
  std::unique_ptr<RankGroup> group_;
  std::atomic<const char*> running_{""};  // the operation's name, a literal
  std::atomic<uint64_t> running_number_{0};
  WaitWatch watch_;
  std::unique_ptr<PeriodicThread> watcher_;  // uses watch_ and group_
  std::unique_ptr<OperationLog> log_;        // uses group_
  std::unique_ptr<KeptTensors> kept_;        // of operations
  std::shared_ptr<OperationQueue> queue_;    // uses log_; also works' own
  std::shared_ptr<Backward> backward_;       // also works' own
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_PROCESS_GROUP_H_
