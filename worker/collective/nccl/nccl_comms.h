// NcclComms are the NCCL communicators of one generation in this process: the
// one of all ranks, and those split from it.
//
// They are non-blocking: NCCL does its work on threads of its own, and a call
// here polls until it is done. Between two polls it asks whether to continue,
// so that no wait for a peer lacks a way out. Thread-safety: none; all from the
// thread of NcclEngine. (NCCL may not be called for one communicator from two
// threads, and must not be to abort it.)
// Ownership: Destroy or Abort must have been called before the destructor,
// which frees nothing of NCCL.
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_COMMS_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_COMMS_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/collective/nccl/nccl_peers.h"
#include "worker/device/cuda/nccl_library.h"

namespace ringmaster {

// Returns OK to go on, or the reason to give up. Called many times a second.
using KeepWaiting = std::function<absl::Status()>;

// Returns a unique id for a new communicator, of which this process will be the
// root.
[[nodiscard]] absl::StatusOr<NcclId> NewNcclId(const NcclLibrary& library);

class NcclComms {
 public:
  struct Group {
    int rank = 0;
    int world_size = 1;
  };
  // For Split: this rank is in no group.
  static constexpr int kNoColor = NCCL_SPLIT_NOCOLOR;
  static constexpr int kNoGroup = -1;

  explicit NcclComms(NcclLibrary library) : library_(library) {}
  NcclComms(const NcclComms&) = delete;

  // Makes group 0, of all ranks; all of them call it, once.
  //   UNAVAILABLE  a peer or the network; NCCL's words
  //   else NcclLibrary's statuses, or those of `keep_waiting`
  [[nodiscard]] absl::Status Connect(const NcclId& id, int rank, int world_size,
                                     const KeepWaiting& keep_waiting);
  // Makes groups of the ranks of `group` with the same `color`, ordered by
  // `key`; all of its ranks call it. Returns this rank's, or kNoGroup. Errors
  // as Connect.
  [[nodiscard]] absl::StatusOr<int> Split(int group, int color, int key,
                                          const KeepWaiting& keep_waiting);
  [[nodiscard]] Group Of(int group) const { return groups_[Index(group)]; }

  // Lets NCCL use this device memory in place where it can; until the end.
  [[nodiscard]] absl::Status Register(void* data, int64_t bytes);

  // Queues a request that CheckNcclRequest accepts. Returns once it is in the
  // stream; the first of its kind connects peers, and so waits for them.
  [[nodiscard]] absl::Status Launch(int group, const CollectiveRequest& request,
                                    cudaStream_t stream,
                                    const KeepWaiting& keep_waiting);

  // Returns the error that any of them has met since: UNAVAILABLE for a peer
  // that is gone, where NCCL can see it (over sockets).
  [[nodiscard]] absl::Status AsyncError() const;

  // Ends them together with the peers, when nothing is queued any more. After
  // an error call Abort, else Destroy.
  [[nodiscard]] absl::Status Finalize(const KeepWaiting& keep_waiting);
  // Frees them and returns the first error, for which there is no remedy. Like
  // Abort it takes up to a second after all is quiet: NCCL joins threads of its
  // own that wake twice a second (poll() in its proxy.cc).
  [[nodiscard]] absl::Status Destroy();
  // Ends them now; the buffers of collectives under way are then undefined. All
  // are told to end before any is freed, because freeing waits for kernels,
  // also those of the others (NVIDIA/nccl#564). May never return
  // (NVIDIA/nccl#1777).
  void Abort();

 private:
  static size_t Index(int group) { return static_cast<size_t>(group); }
  [[nodiscard]] absl::Status Await(ncclComm_t comm, std::string_view what,
                                   const KeepWaiting& keep_waiting) const;
  // The outcome of a call that queues its work.
  [[nodiscard]] absl::Status Outcome(ncclResult_t result, ncclComm_t comm,
                                     std::string_view what,
                                     const KeepWaiting& keep_waiting) const;
  [[nodiscard]] absl::StatusOr<int> Add(ncclComm_t comm);
  [[nodiscard]] ncclResult_t Queue(int group, const CollectiveRequest& request,
                                   cudaStream_t stream) const;
  [[nodiscard]] ncclResult_t QueueAllGather(int group,
                                            const CollectiveRequest& request,
                                            cudaStream_t stream) const;
  [[nodiscard]] ncclResult_t QueueReduceScatter(
      int group, const CollectiveRequest& request, cudaStream_t stream) const;
  void Deregister();
  void Forget();

  const NcclLibrary library_;
  // NCCL writes here when a split is done, so entries stay where they are;
  // null: none was made.
  std::deque<ncclComm_t> made_;
  std::vector<ncclComm_t> comms_;  // by group
  std::vector<Group> groups_;
  std::vector<void*> registrations_;  // of group 0
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_NCCL_COMMS_H_
