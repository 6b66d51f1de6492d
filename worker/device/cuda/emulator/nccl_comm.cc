#include "worker/device/cuda/emulator/nccl_comm.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "worker/device/cuda/emulator/activity.h"
#include "worker/device/cuda/emulator/nccl_emulator.h"
#include "worker/device/cuda/emulator/nccl_reduce.h"
#include "worker/device/cuda/emulator/runtime.h"

namespace ringmaster::cuda_emulator {
namespace {

// Kernels of communicators that are on a device now.
class RunningKernels {
 public:
  static RunningKernels& Get() {
    static RunningKernels& running = *new RunningKernels();
    return running;
  }
  void Begin(int device) {
    MutexLock lock(mutex_);
    ++running_[device];
  }
  void End(int device) {
    {
      MutexLock lock(mutex_);
      --running_[device];
    }
    changed_.NotifyAll();
  }
  void AwaitNone(int device) {
    MutexLock lock(mutex_);
    while (running_[device] > 0) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<int, int> running_ GUARDED_BY(mutex_);
};

// The gate that an abort hangs at.
class AbortGate {
 public:
  static AbortGate& Get() {
    static AbortGate& gate = *new AbortGate();
    return gate;
  }
  void Set(bool hangs) {
    {
      MutexLock lock(mutex_);
      hangs_ = hangs;
    }
    changed_.NotifyAll();
  }
  void Pass() {
    MutexLock lock(mutex_);
    while (hangs_) changed_.Wait(mutex_);
  }

 private:
  AbortGate() {
    const char* setting = getenv("RINGMASTER_EMULATED_NCCL_ABORT");
    hangs_ = setting != nullptr && std::strcmp(setting, "hang") == 0;
  }

  Mutex mutex_;
  CondVar changed_;
  bool hangs_ GUARDED_BY(mutex_) = false;
};

struct QueuedKernel {
  ncclComm_t comm;
  NcclKernel kernel;
  cudaStream_t stream;
};

// Calls between ncclGroupStart and ncclGroupEnd on this thread.
struct OpenGroup {
  int depth = 0;
  std::vector<QueuedKernel> kernels;
  std::vector<ncclComm_t> aborted;
};
OpenGroup& ThisGroup() {
  static thread_local OpenGroup group;
  return group;
}

std::string& LastWords() {
  static thread_local std::string words;
  return words;
}

void RunKernel(const NcclKernel& kernel) {
  NcclMember& member = *kernel.member;
  RunningKernels::Get().Begin(member.device);
  ncclResult_t result = member.state();
  if (result == ncclSuccess || result == ncclInProgress) {
    MutexLock lock(member.round);
    result = member.link.Exchange(kernel.header, kernel.send, kernel.send_bytes,
                                  kernel.receive, kernel.receive_bytes);
  }
  if (result != ncclSuccess) {
    if (!member.link.is_aborted()) {
      member.SetState(result);
      member.link.AwaitAbort();
    }
    std::memset(kernel.receive, 0xFF, kernel.receive_bytes);
  }
  RunningKernels::Get().End(member.device);
}

cudaError_t EnqueueAll(const std::vector<QueuedKernel>& kernels) {
  for (const QueuedKernel& queued : kernels) {
    const cudaError_t error = Enqueue(queued.stream, [kernel = queued.kernel] {
      RunNoted(
          ActivityKind::kKernel,
          [] { return Activity{.name = "nccl: an emulated collective"}; },
          [&] { RunKernel(kernel); });
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

// Launches the kernels of one communicator.
ncclResult_t Launch(ncclComm_t comm, std::vector<QueuedKernel> kernels) {
  if (comm->is_connected) {
    return EnqueueAll(kernels) == cudaSuccess ? ncclSuccess
                                              : ncclUnhandledCudaError;
  }
  comm->is_connected = true;
  return comm->Begin([member = comm->member, kernels = std::move(kernels)] {
    cudaSetDevice(member->device);
    ncclResult_t result = ncclSuccess;
    {
      MutexLock lock(member->round);  // all ranks, no bytes
      result =
          member->link.Exchange({NcclRound::kGather, ncclUint8, ncclSum, 0, 0},
                                nullptr, 0, nullptr, 0);
    }
    if (result == ncclSuccess && EnqueueAll(kernels) != cudaSuccess) {
      result = ncclUnhandledCudaError;
    }
    member->SetState(result);
  });
}

// The part of a split that each rank sends to the others.
struct SplitPart {
  int color;
  int key;
  NcclHubAddress hub;  // of the group, if this rank is its first
};

// Returns the place of this rank in its group, and the hub where the group
// meets.
NcclHubAddress Place(const std::vector<SplitPart>& parts, int rank,
                     NcclMember& child) {
  const SplitPart& own = parts[static_cast<size_t>(rank)];
  int first = rank;
  child.rank = 0;
  child.ranks = 0;
  const auto comes_before = [&](int a, int b) {
    return std::pair(parts[static_cast<size_t>(a)].key, a) <
           std::pair(parts[static_cast<size_t>(b)].key, b);
  };
  for (int other = 0; other < static_cast<int>(parts.size()); ++other) {
    if (parts[static_cast<size_t>(other)].color != own.color) continue;
    ++child.ranks;
    if (comes_before(other, rank)) ++child.rank;
    if (comes_before(other, first)) first = other;
  }
  return parts[static_cast<size_t>(first)].hub;
}

}  // namespace

void SetNcclAbortHangs(bool hangs) { AbortGate::Get().Set(hangs); }

void NcclMember::SetState(ncclResult_t result) {
  MutexLock lock(mutex);
  if (state_ == ncclSuccess || state_ == ncclInProgress) state_ = result;
}

ncclResult_t NcclMember::state() {
  MutexLock lock(mutex);
  return state_;
}

ncclResult_t NcclRefuse(ncclResult_t result, std::string words) {
  LastWords() = std::move(words);
  return result;
}

const std::string& NcclLastWords() { return LastWords(); }

ncclResult_t NcclOpenGroup() {
  ++ThisGroup().depth;
  return ncclSuccess;
}

ncclResult_t NcclCloseGroup() {
  OpenGroup& group = ThisGroup();
  if (group.depth == 0) return NcclRefuse(ncclInvalidUsage, "no group is open");
  if (--group.depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  std::map<ncclComm_t, std::vector<QueuedKernel>> by_comm;
  for (QueuedKernel& queued : group.kernels) {
    by_comm[queued.comm].push_back(std::move(queued));
  }
  group.kernels.clear();
  for (auto& [comm, kernels] : by_comm) {
    const ncclResult_t launched = Launch(comm, std::move(kernels));
    if (result == ncclSuccess) result = launched;
  }
  for (const ncclComm_t comm : std::exchange(group.aborted, {})) NcclFree(comm);
  return result;
}

ncclResult_t NcclReady(ncclComm_t comm) {
  if (comm == nullptr)
    return NcclRefuse(ncclInvalidArgument, "no communicator");
  const ncclResult_t state = comm->member->state();
  if (state != ncclInProgress) return state;
  return NcclRefuse(ncclInvalidArgument,
                    "the communicator is still in progress");
}

bool IsNcclBuffer(const void* data, size_t bytes) {
  if (bytes == 0) return true;
  const MemoryRange range = Runtime::Get().Find(data, bytes);
  return range.kind == MemoryKind::kDevice && range.is_whole;
}

ncclResult_t NcclQueue(ncclComm_t comm, NcclKernel kernel,
                       cudaStream_t stream) {
  const ncclResult_t ready = NcclReady(comm);
  if (ready != ncclSuccess) return ready;
  if (NcclElementBytes(kernel.header.dtype) == 0) {
    return NcclRefuse(ncclInvalidArgument, "this dtype is not emulated");
  }
  if (!IsNcclBuffer(kernel.send, kernel.send_bytes) ||
      !IsNcclBuffer(kernel.receive, kernel.receive_bytes)) {
    return NcclRefuse(ncclInvalidArgument, "a buffer is not in device memory");
  }
  if (kernel.header.count == 0) return ncclSuccess;
  kernel.member = comm->member;
  QueuedKernel queued = {comm, std::move(kernel), stream};
  OpenGroup& group = ThisGroup();
  if (group.depth == 0) return Launch(comm, {std::move(queued)});
  group.kernels.push_back(std::move(queued));
  return ncclSuccess;
}

void NcclJoin(NcclMember& member, const NcclHubAddress& address) {
  cudaSetDevice(member.device);
  NcclHello hello = {};
  hello.rank = member.rank;
  hello.ranks = member.ranks;
  hello.device = member.device;
  const char* host = getenv("NCCL_HOSTID");
  std::strncpy(hello.host, host != nullptr ? host : "this host",
               sizeof(hello.host) - 1);
  ncclResult_t result = member.link.Connect(address);
  if (result == ncclSuccess) {
    result = member.link.Exchange({}, &hello, sizeof(hello), nullptr, 0);
  }
  member.SetState(result);
}

void NcclSplitOff(NcclMember& parent, NcclMember* child, int color, int key) {
  SplitPart own = {color, key, {}};
  ncclResult_t result = child != nullptr ? StartNcclHub(&own.hub) : ncclSuccess;
  std::vector<SplitPart> parts(static_cast<size_t>(parent.ranks));
  if (result == ncclSuccess) {
    MutexLock lock(parent.round);
    result = parent.link.Exchange(
        {NcclRound::kGather, ncclUint8, ncclSum, 0, sizeof(own)}, &own,
        sizeof(own), parts.data(), parts.size() * sizeof(own));
  }
  if (child != nullptr && result == ncclSuccess) {
    NcclJoin(*child, Place(parts, parent.rank, *child));
    result = child->state();
  } else if (child != nullptr) {
    child->SetState(result);
  }
  parent.SetState(result);
}

void NcclFree(ncclComm_t comm) {
  RunningKernels::Get().AwaitNone(comm->member->device);
  comm->member->link.Abort();
  if (comm->setup.joinable()) comm->setup.join();
  comm->member->link.Shutdown();
  delete comm;
}

void NcclAbort(ncclComm_t comm) {
  AbortGate::Get().Pass();
  comm->member->link.Abort();
  if (ThisGroup().depth == 0) return NcclFree(comm);
  ThisGroup().aborted.push_back(comm);
}

}  // namespace ringmaster::cuda_emulator

ncclResult_t ncclComm::Begin(std::function<void()> work) {
  if (setup.joinable()) setup.join();
  {
    ringmaster::MutexLock lock(member->mutex);
    member->state_ = ncclInProgress;
  }
  setup = std::thread(std::move(work));
  if (!is_blocking) return ncclInProgress;
  setup.join();
  return member->state();
}
