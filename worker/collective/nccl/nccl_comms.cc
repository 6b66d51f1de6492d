#include "worker/collective/nccl/nccl_comms.h"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include "common/plan/partition.h"
#include "common/status/status_macros.h"
#include "common/tensor/dtype.h"

namespace ringmaster {
namespace {

static_assert(kNcclIdBytes == sizeof(ncclUniqueId));

// The time between two looks at the work of NCCL's threads, which takes
// milliseconds at least.
constexpr std::chrono::microseconds kLookInterval(50);

ncclDataType_t NcclDType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUint8:
      return ncclUint8;
  }
  return ncclNumTypes;  // NCCL refuses it
}

ncclRedOp_t NcclOp(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return ncclSum;
    case Reduction::kMax:
      return ncclMax;
    case Reduction::kMin:
      return ncclMin;
    case Reduction::kAverage:
      return ncclAvg;
  }
  return ncclNumOps;  // NCCL refuses it
}

std::byte* At(const BufferView& buffer, int64_t element) {
  return static_cast<std::byte*>(buffer.ptr) + element * SizeOf(buffer.dtype);
}

bool IsEven(const CollectiveRequest& request, const NcclComms::Group& group) {
  return request.buffer.count % group.world_size == 0;
}

}  // namespace

absl::StatusOr<NcclId> NewNcclId(const NcclLibrary& library) {
  ncclUniqueId made;
  RETURN_IF_ERROR(library.ToStatus(library.functions().GetUniqueId(&made),
                                   "ncclGetUniqueId"));
  NcclId id;
  std::memcpy(id.data(), made.internal, id.size());
  return id;
}

absl::Status NcclComms::Await(ncclComm_t comm, std::string_view what,
                              const KeepWaiting& keep_waiting) const {
  while (true) {
    ncclResult_t state = ncclInProgress;
    RETURN_IF_ERROR(library_.ToStatus(
        library_.functions().CommGetAsyncError(comm, &state), what));
    if (state != ncclInProgress) return library_.ToStatus(state, what);
    RETURN_IF_ERROR(keep_waiting());
    std::this_thread::sleep_for(kLookInterval);
  }
}

absl::Status NcclComms::Outcome(ncclResult_t result, ncclComm_t comm,
                                std::string_view what,
                                const KeepWaiting& keep_waiting) const {
  if (result != ncclInProgress) return library_.ToStatus(result, what);
  return Await(comm, what, keep_waiting);
}

absl::Status NcclComms::Connect(const NcclId& id, int rank, int world_size,
                                const KeepWaiting& keep_waiting) {
  ncclUniqueId unique_id;
  std::memcpy(unique_id.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t& comm = made_.emplace_back(nullptr);
  const ncclResult_t result = library_.functions().CommInitRankConfig(
      &comm, world_size, unique_id, rank, &config);
  RETURN_IF_ERROR(Outcome(result, comm, "ncclCommInitRank", keep_waiting));
  return Add(comm).status();
}

absl::StatusOr<int> NcclComms::Split(int group, int color, int key,
                                     const KeepWaiting& keep_waiting) {
  const ncclComm_t parent = comms_[Index(group)];
  ncclComm_t& comm = made_.emplace_back(nullptr);
  const ncclResult_t result =
      library_.functions().CommSplit(parent, color, key, &comm, nullptr);
  RETURN_IF_ERROR(Outcome(result, parent, "ncclCommSplit", keep_waiting));
  if (comm == nullptr) return kNoGroup;
  RETURN_IF_ERROR(Await(comm, "ncclCommSplit", keep_waiting));
  return Add(comm);
}

absl::StatusOr<int> NcclComms::Add(ncclComm_t comm) {
  Group group;
  RETURN_IF_ERROR(
      library_.ToStatus(library_.functions().CommUserRank(comm, &group.rank),
                        "ncclCommUserRank"));
  RETURN_IF_ERROR(
      library_.ToStatus(library_.functions().CommCount(comm, &group.world_size),
                        "ncclCommCount"));
  comms_.push_back(comm);
  groups_.push_back(group);
  return static_cast<int>(comms_.size()) - 1;
}

absl::Status NcclComms::Register(void* data, int64_t bytes) {
  void* handle = nullptr;
  RETURN_IF_ERROR(library_.ToStatus(
      library_.functions().CommRegister(comms_[0], data,
                                        static_cast<size_t>(bytes), &handle),
      "ncclCommRegister"));
  if (handle != nullptr) registrations_.push_back(handle);
  return absl::OkStatus();
}

void NcclComms::Deregister() {
  for (void* handle : registrations_) {
    static_cast<void>(library_.functions().CommDeregister(comms_[0], handle));
  }
  registrations_.clear();
}

absl::Status NcclComms::Launch(int group, const CollectiveRequest& request,
                               cudaStream_t stream,
                               const KeepWaiting& keep_waiting) {
  return Outcome(Queue(group, request, stream), comms_[Index(group)],
                 CollectiveOpName(request.op), keep_waiting);
}

ncclResult_t NcclComms::Queue(int group, const CollectiveRequest& request,
                              cudaStream_t stream) const {
  const BufferView& buffer = request.buffer;
  const ncclComm_t comm = comms_[Index(group)];
  const auto count = static_cast<size_t>(buffer.count);
  switch (request.op) {
    case CollectiveOp::kAllReduce:
      return library_.functions().AllReduce(
          buffer.ptr, buffer.ptr, count, NcclDType(buffer.dtype),
          NcclOp(request.reduction), comm, stream);
    case CollectiveOp::kBroadcast:
      return library_.functions().Broadcast(buffer.ptr, buffer.ptr, count,
                                            NcclDType(buffer.dtype),
                                            request.root, comm, stream);
    case CollectiveOp::kAllGather:
      return QueueAllGather(group, request, stream);
    case CollectiveOp::kReduceScatter:
      return QueueReduceScatter(group, request, stream);
    case CollectiveOp::kBarrier:
      break;
  }
  return ncclInvalidArgument;
}

// NCCL's own takes chunks of one size only; others are a broadcast by each
// rank, which the group makes one operation.
ncclResult_t NcclComms::QueueAllGather(int group,
                                       const CollectiveRequest& request,
                                       cudaStream_t stream) const {
  const NcclFunctions& nccl = library_.functions();
  const BufferView& buffer = request.buffer;
  const Group& own = groups_[Index(group)];
  const ncclDataType_t dtype = NcclDType(buffer.dtype);
  if (IsEven(request, own)) {
    const ElemRange chunk = ChunkOf(own.rank, own.world_size, buffer.count);
    return nccl.AllGather(At(buffer, chunk.begin), buffer.ptr,
                          static_cast<size_t>(chunk.count), dtype,
                          comms_[Index(group)], stream);
  }
  ncclResult_t first_error = nccl.GroupStart();
  for (int rank = 0; rank < own.world_size; ++rank) {
    const ElemRange chunk = ChunkOf(rank, own.world_size, buffer.count);
    void* const place = At(buffer, chunk.begin);
    const ncclResult_t result =
        nccl.Broadcast(place, place, static_cast<size_t>(chunk.count), dtype,
                       rank, comms_[Index(group)], stream);
    if (first_error == ncclSuccess && result != ncclInProgress) {
      first_error = result;
    }
  }
  const ncclResult_t end = nccl.GroupEnd();
  return first_error != ncclSuccess ? first_error : end;
}

// The same with a reduction to each rank.
ncclResult_t NcclComms::QueueReduceScatter(int group,
                                           const CollectiveRequest& request,
                                           cudaStream_t stream) const {
  const NcclFunctions& nccl = library_.functions();
  const BufferView& buffer = request.buffer;
  const Group& own = groups_[Index(group)];
  const ncclDataType_t dtype = NcclDType(buffer.dtype);
  const ncclRedOp_t op = NcclOp(request.reduction);
  if (IsEven(request, own)) {
    const ElemRange chunk = ChunkOf(own.rank, own.world_size, buffer.count);
    return nccl.ReduceScatter(buffer.ptr, At(buffer, chunk.begin),
                              static_cast<size_t>(chunk.count), dtype, op,
                              comms_[Index(group)], stream);
  }
  ncclResult_t first_error = nccl.GroupStart();
  for (int rank = 0; rank < own.world_size; ++rank) {
    const ElemRange chunk = ChunkOf(rank, own.world_size, buffer.count);
    void* const place = At(buffer, chunk.begin);
    const ncclResult_t result =
        nccl.Reduce(place, place, static_cast<size_t>(chunk.count), dtype, op,
                    rank, comms_[Index(group)], stream);
    if (first_error == ncclSuccess && result != ncclInProgress) {
      first_error = result;
    }
  }
  const ncclResult_t end = nccl.GroupEnd();
  return first_error != ncclSuccess ? first_error : end;
}

absl::Status NcclComms::AsyncError() const {
  for (const ncclComm_t comm : comms_) {
    ncclResult_t state = ncclSuccess;
    RETURN_IF_ERROR(
        library_.ToStatus(library_.functions().CommGetAsyncError(comm, &state),
                          "ncclCommGetAsyncError"));
    if (state == ncclSuccess || state == ncclInProgress) continue;
    return library_.ToStatus(state, "a collective");
  }
  return absl::OkStatus();
}

absl::Status NcclComms::Finalize(const KeepWaiting& keep_waiting) {
  Deregister();
  // Those that were split off end first: they may use what their parent has.
  for (auto comm = comms_.rbegin(); comm != comms_.rend(); ++comm) {
    RETURN_IF_ERROR(Outcome(library_.functions().CommFinalize(*comm), *comm,
                            "ncclCommFinalize", keep_waiting));
  }
  return absl::OkStatus();
}

absl::Status NcclComms::Destroy() {
  absl::Status first_error;
  for (auto comm = comms_.rbegin(); comm != comms_.rend(); ++comm) {
    first_error.Update(library_.ToStatus(
        library_.functions().CommDestroy(*comm), "ncclCommDestroy"));
  }
  Forget();
  return first_error;
}

void NcclComms::Forget() {
  made_.clear();
  comms_.clear();
  groups_.clear();
  registrations_.clear();
}

// In a group each call at once sets its communicator's flag, which its kernels
// look at; all are freed at the group's end.
void NcclComms::Abort() {
  const NcclFunctions& nccl = library_.functions();
  static_cast<void>(nccl.GroupStart());
  for (const ncclComm_t comm : made_) {
    if (comm != nullptr) static_cast<void>(nccl.CommAbort(comm));
  }
  static_cast<void>(nccl.GroupEnd());
  Forget();
}

}  // namespace ringmaster
