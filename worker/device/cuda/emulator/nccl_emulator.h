// Emulated NCCL, for tests: the faults in it.
//
// Its functions have the signatures of nccl.h. Ranks, in one process or several
// on this host, meet at a hub (nccl_hub.h). As in the real NCCL, collectives
// run in their stream, the first one of a communicator connects it with its
// peers, and a rank that is gone shows as ncclRemoteError in those that wait
// for it. A kernel that cannot go on stays on the device until its communicator
// is aborted; its buffer is then garbage (0xFF). Freeing a communicator waits
// for all kernels on its device. Two ranks on one device of one host
// (NCCL_HOSTID) are refused.
// Not emulated: order between a split and collectives of the same communicator
// that are still under way.
// Thread-safety: thread-safe.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_EMULATOR_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_EMULATOR_H_

namespace ringmaster::cuda_emulator {

// While true, ncclCommAbort does not return (NVIDIA/nccl#1777); once false
// again, those that hang go on. RINGMASTER_EMULATED_NCCL_ABORT=hang in the
// environment sets it for a process.
void SetNcclAbortHangs(bool hangs);

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_NCCL_EMULATOR_H_
