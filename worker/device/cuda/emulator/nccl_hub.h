// NcclHub is where the ranks of an emulated NCCL communicator meet: a listener
// on loopback with a thread, in the process that made the unique id. NcclLink
// is a rank's connection with it.
//
// Every operation is a round: each rank sends its part, and once the hub has
// all of them it answers each. It combines in the order of ranks, so that all
// get the same bits. When a rank's connection ends, the hub ends all of them,
// and itself.
// Thread-safety: a hub's thread is its own; a link: Exchange from one thread at
// a time, the rest from any.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_HUB_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_HUB_H_

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/transport/unique_fd.h"

namespace ringmaster::cuda_emulator {

enum class NcclRound : int32_t {
  kHello,          // sends NcclHello
  kAllReduce,      // count elements; the answer too
  kReduce,         // count elements; the answer to root too
  kReduceScatter,  // count elements for each rank; the answer is this rank's
  kBroadcast,      // count elements by root; the answer to all
  kGather,         // count elements; the answer has all ranks'
};

struct NcclRoundHeader {
  NcclRound round = NcclRound::kHello;
  ncclDataType_t dtype = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int32_t root = 0;
  uint64_t count = 0;

  friend bool operator==(const NcclRoundHeader&,
                         const NcclRoundHeader&) = default;
};

// The first round. Two ranks with the same host and device are refused.
struct NcclHello {
  int32_t rank;
  int32_t ranks;
  int32_t device;
  char host[116];
};

// The contents of a unique id.
struct NcclHubAddress {
  uint64_t magic;
  uint64_t secret;
  uint16_t port;
};

// Starts a hub; it ends with its ranks' connections, or after a minute without
// all of them. ncclSystemError: no socket or thread.
ncclResult_t StartNcclHub(NcclHubAddress* address);

class NcclLink {
 public:
  NcclLink();
  NcclLink(const NcclLink&) = delete;

  // Connects with the hub. ncclSystemError: there is none.
  ncclResult_t Connect(const NcclHubAddress& address);
  // Does a round. ncclRemoteError: a rank is gone; ncclInvalidUsage: ranks'
  // rounds differ; ncclInProgress: Abort was called.
  ncclResult_t Exchange(const NcclRoundHeader& header, const void* send,
                        size_t send_bytes, void* receive, size_t receive_bytes);

  // Ends Exchange, for good.
  void Abort();
  bool is_aborted() const { return is_aborted_; }
  // Blocks until Abort.
  void AwaitAbort() const;
  // Tells the hub that this rank is gone.
  void Shutdown();

 private:
  bool Transfer(bool is_send, void* data, size_t bytes);

  UniqueFd socket_;
  const UniqueFd abort_fd_;  // readable once aborted
  std::atomic<bool> is_aborted_{false};
};

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_HUB_H_
