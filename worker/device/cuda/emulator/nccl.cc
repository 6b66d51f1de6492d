// The functions of nccl.h, emulated.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <memory>
#include <utility>

#include "worker/device/cuda/emulator/nccl_comm.h"
#include "worker/device/cuda/emulator/nccl_hub.h"
#include "worker/device/cuda/emulator/nccl_reduce.h"

using namespace ringmaster::cuda_emulator;  // NOLINT: these are its functions

namespace {

NcclKernel Round(NcclRound round, ncclDataType_t dtype, ncclRedOp_t op,
                 int root, size_t count) {
  NcclKernel kernel;
  kernel.header = {round, dtype, op, root, count};
  return kernel;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return NcclLastWords().c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static_assert(sizeof(NcclHubAddress) <= sizeof(id->internal));
  NcclHubAddress address = {};
  const ncclResult_t result = StartNcclHub(&address);
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, &address, sizeof(address));
  return result;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return NcclRefuse(ncclInvalidArgument, "no such rank");
  }
  auto* const made = new ncclComm();
  made->is_blocking = config == nullptr || config->blocking != 0;
  made->member->rank = rank;
  made->member->ranks = ranks;
  if (cudaGetDevice(&made->member->device) != cudaSuccess) {
    delete made;
    return ncclUnhandledCudaError;
  }
  *comm = made;
  NcclHubAddress address;
  std::memcpy(&address, id.internal, sizeof(address));
  return made->Begin(
      [member = made->member, address] { NcclJoin(*member, address); });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                           ncclComm_t* newcomm, ncclConfig_t*) {
  const ncclResult_t ready = NcclReady(comm);
  if (ready != ncclSuccess) return ready;
  *newcomm = nullptr;
  std::shared_ptr<NcclMember> child;
  if (color != NCCL_SPLIT_NOCOLOR) {
    *newcomm = new ncclComm();
    (*newcomm)->is_blocking = comm->is_blocking;
    child = (*newcomm)->member;
    child->device = comm->member->device;
    child->SetState(ncclInProgress);
  }
  return comm->Begin([member = comm->member, child, color, key] {
    NcclSplitOff(*member, child.get(), color, key);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = comm->member->state();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->member->ranks;
  return NcclReady(comm);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->member->rank;
  return NcclReady(comm);
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, size_t bytes,
                              void** handle) {
  const ncclResult_t ready = NcclReady(comm);
  if (ready != ncclSuccess) return ready;
  if (!IsNcclBuffer(data, bytes)) {
    return NcclRefuse(ncclInvalidArgument, "what is not in device memory");
  }
  *handle = data;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return NcclReady(comm);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return NcclReady(comm); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  NcclFree(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  NcclAbort(comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return NcclOpenGroup(); }
ncclResult_t ncclGroupEnd() { return NcclCloseGroup(); }

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count,
                           ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  NcclKernel kernel = Round(NcclRound::kAllReduce, dtype, op, 0, count);
  kernel.send = send;
  kernel.receive = receive;
  kernel.send_bytes = kernel.receive_bytes = count * NcclElementBytes(dtype);
  return NcclQueue(comm, std::move(kernel), stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count,
                        ncclDataType_t dtype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  NcclKernel kernel = Round(NcclRound::kReduce, dtype, op, root, count);
  kernel.send = send;
  kernel.send_bytes = count * NcclElementBytes(dtype);
  if (comm != nullptr && comm->member->rank == root) {
    kernel.receive = receive;
    kernel.receive_bytes = kernel.send_bytes;
  }
  return NcclQueue(comm, std::move(kernel), stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count,
                               ncclDataType_t dtype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  NcclKernel kernel = Round(NcclRound::kReduceScatter, dtype, op, 0, count);
  kernel.send = send;
  kernel.receive = receive;
  kernel.receive_bytes = count * NcclElementBytes(dtype);
  if (comm != nullptr) {
    kernel.send_bytes =
        kernel.receive_bytes * static_cast<size_t>(comm->member->ranks);
  }
  return NcclQueue(comm, std::move(kernel), stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count,
                           ncclDataType_t dtype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  NcclKernel kernel = Round(NcclRound::kBroadcast, dtype, ncclSum, root, count);
  kernel.receive = receive;
  kernel.receive_bytes = count * NcclElementBytes(dtype);
  if (comm != nullptr && comm->member->rank == root) {
    kernel.send = send;
    kernel.send_bytes = kernel.receive_bytes;
  }
  return NcclQueue(comm, std::move(kernel), stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count,
                           ncclDataType_t dtype, ncclComm_t comm,
                           cudaStream_t stream) {
  NcclKernel kernel = Round(NcclRound::kGather, dtype, ncclSum, 0, count);
  kernel.send = send;
  kernel.receive = receive;
  kernel.send_bytes = count * NcclElementBytes(dtype);
  if (comm != nullptr) {
    kernel.receive_bytes =
        kernel.send_bytes * static_cast<size_t>(comm->member->ranks);
  }
  return NcclQueue(comm, std::move(kernel), stream);
}

}  // extern "C"
