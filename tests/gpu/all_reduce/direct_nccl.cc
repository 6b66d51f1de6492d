#include "tests/gpu/all_reduce/direct_nccl.h"

#include "common/status/status_macros.h"

namespace ringmaster {

absl::StatusOr<std::unique_ptr<DirectNccl>> DirectNccl::Create(
    const NcclLibrary& library, const ncclUniqueId& id, int rank,
    int world_size, void* arena, int64_t arena_bytes) {
  std::unique_ptr<DirectNccl> direct(new DirectNccl(library));
  ASSIGN_OR_RETURN(direct->stream_, CudaStream::Create("direct"));
  const NcclFunctions& nccl = library.functions();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  RETURN_IF_ERROR(library.ToStatus(
      nccl.CommInitRankConfig(&direct->comm_, world_size, id, rank, &config),
      "ncclCommInitRankConfig"));
  RETURN_IF_ERROR(library.ToStatus(
      nccl.CommRegister(direct->comm_, arena, static_cast<size_t>(arena_bytes),
                        &direct->registration_),
      "ncclCommRegister"));
  return direct;
}

DirectNccl::~DirectNccl() {
  const NcclFunctions& nccl = library_.functions();
  if (registration_ != nullptr) {
    static_cast<void>(nccl.CommDeregister(comm_, registration_));
  }
  if (comm_ != nullptr) static_cast<void>(nccl.CommDestroy(comm_));
}

absl::Status DirectNccl::AllReduce(float* values, int64_t count, int times) {
  for (int i = 0; i < times; ++i) {
    RETURN_IF_ERROR(library_.ToStatus(
        library_.functions().AllReduce(values, values,
                                       static_cast<size_t>(count), ncclFloat,
                                       ncclSum, comm_, stream_->get()),
        "ncclAllReduce"));
  }
  return stream_->Synchronize();
}

}  // namespace ringmaster
