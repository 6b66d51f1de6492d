// The state behind an emulated ncclComm_t: a member of a hub, the kernels that
// it queues, and groups of calls.
//
// Thread-safety: as NCCL's functions.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_COMM_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_COMM_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "worker/device/cuda/emulator/nccl_hub.h"

namespace ringmaster::cuda_emulator {

// The part of a communicator that outlives it: kernels still in a stream use
// it.
struct NcclMember {
  NcclLink link;
  ringmaster::Mutex round;  // held in Exchange
  int rank = 0;
  int ranks = 1;
  int device = 0;

  // The first error stays.
  void SetState(ncclResult_t result);
  ncclResult_t state();

  ringmaster::Mutex mutex;
  ncclResult_t state_ GUARDED_BY(mutex) = ncclSuccess;
};

// One collective as a kernel sees it.
struct NcclKernel {
  std::shared_ptr<NcclMember> member = nullptr;
  NcclRoundHeader header;
  const void* send = nullptr;
  size_t send_bytes = 0;
  void* receive = nullptr;
  size_t receive_bytes = 0;
};

// Returns `result`; ncclGetLastError then has `words`, on this thread.
ncclResult_t NcclRefuse(ncclResult_t result, std::string words);
const std::string& NcclLastWords();

// Makes the calling thread's later calls wait for the end of the group, where
// `comm`'s kernels become one operation. Abort has two parts: one that every
// communicator of a group does at once, and one that each does at the group's
// end.
ncclResult_t NcclOpenGroup();
ncclResult_t NcclCloseGroup();

// Returns ncclSuccess if the communicator can be used.
ncclResult_t NcclReady(ncclComm_t comm);
ncclResult_t NcclQueue(ncclComm_t comm, NcclKernel kernel, cudaStream_t stream);
// Returns true if the whole range is in one allocation on a device.
bool IsNcclBuffer(const void* data, size_t bytes);

// Takes the rank's place at the hub; an error becomes its state.
void NcclJoin(NcclMember& member, const NcclHubAddress& address);
// `child` may be null: this rank is in no group.
void NcclSplitOff(NcclMember& parent, NcclMember* child, int color, int key);

void NcclFree(ncclComm_t comm);
void NcclAbort(ncclComm_t comm);

}  // namespace ringmaster::cuda_emulator

struct ncclComm {
  std::shared_ptr<ringmaster::cuda_emulator::NcclMember> member =
      std::make_shared<ringmaster::cuda_emulator::NcclMember>();
  bool is_blocking = true;
  bool is_connected = false;  // with its peers, by the first collective
  std::thread setup;          // what the communicator is in progress with

  // Runs `work`, which ends the state ncclInProgress, beside the caller or, for
  // a blocking communicator, before this returns.
  ncclResult_t Begin(std::function<void()> work);
};

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_COMM_H_
