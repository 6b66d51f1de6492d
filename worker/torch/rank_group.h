// RankGroup is a rank's part in one process group of a PyTorch program: the
// connections to the other ranks, and what the group's operations are made of.
//
// It knows nothing of PyTorch; buffers are bytes in host memory.
// Thread-safety: RunCollective and Exchange from one thread at a time; the rest
// from any.
#ifndef RINGMASTER_WORKER_TORCH_RANK_GROUP_H_
#define RINGMASTER_WORKER_TORCH_RANK_GROUP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
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
#include "common/transport/tcp.h"
#include "worker/collective/communicator.h"
#include "worker/torch/group_store.h"
#include "worker/torch/point_to_point.h"
#include "worker/torch/rendezvous.h"
#include "worker/torch/wait_watch.h"

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
  // Ends all connections, and the threads.
  ~RankGroup();

  [[nodiscard]] int rank() const { return communicator_->rank(); }
  [[nodiscard]] int world_size() const { return communicator_->world_size(); }

  // Communicator::Run.
  [[nodiscard]] absl::Status RunCollective(const CollectiveRequest& request,
                                           absl::Duration timeout);

  // Sends to[r] to each rank r, and receives from[r] from it; a nullopt is
  // nothing, which then is so at the other side, too. Both have one entry for
  // each rank; those of this rank are copied. All ranks call it in the same
  // order.
  //   as of PointToPoint::Wait
  //   UNIMPLEMENTED  the group is too large for messages
  using Parts = std::vector<std::optional<std::span<std::byte>>>;
  [[nodiscard]] absl::Status Exchange(const Parts& to, const Parts& from,
                                      absl::Duration timeout);

  // Returns once all ranks have called it. At rank 0 an error names the ranks
  // that have not within `timeout`: the first, or all of them if
  // `names_all`; the others wait as long again for its word.
  [[nodiscard]] absl::Status MonitoredBarrier(absl::Duration timeout,
                                              bool names_all);

  // What it does now; `collective` is the name of the operation that runs.
  [[nodiscard]] RankActivity activity(std::string_view collective) const;

  // UNIMPLEMENTED: the group is too large for messages. They may outlive it.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<PointToPoint>> Messages() const;

  // Fails everything under way and to come.
  void Abort(std::string_view why);

 private:
  RankGroup(std::unique_ptr<Communicator> communicator,
            std::shared_ptr<PointToPoint> messages, Clock& clock);

  Clock& clock_;
  const std::unique_ptr<Communicator> communicator_;
  const std::shared_ptr<PointToPoint> messages_;
  uint32_t exchanges_ = 0;
  std::atomic<bool> has_failed_{false};  // a collective
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_RANK_GROUP_H_
