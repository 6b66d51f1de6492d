#include "tests/gpu/all_reduce/all_reduce_pair.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/status/status_macros.h"
#include "tests/gpu/all_reduce/known_sums.h"
#include "worker/collective/communicator.h"

namespace ringmaster {
namespace {

constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
// Bytes checked at a time: whole periods, so that each part begins with one.
constexpr int64_t kPartBytes =
    (int64_t{16} << 20) / (kKnownPeriod * kFloat) * (kKnownPeriod * kFloat);
constexpr absl::Duration kPatience = absl::Seconds(60);

absl::Status FirstOf(const std::vector<absl::Status>& statuses) {
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    if (statuses[rank].ok()) continue;
    return absl::Status(
        statuses[rank].code(),
        absl::StrCat("rank ", rank, ": ", statuses[rank].message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReducePair>> AllReducePair::Create(
    int gpus, int64_t max_bytes) {
  std::unique_ptr<AllReducePair> pair(new AllReducePair());
  pair->gpus_ = gpus;
  pair->max_bytes_ = max_bytes;
  pair->memory_.resize(static_cast<size_t>(gpus));
  pair->direct_.resize(static_cast<size_t>(gpus));
  ASSIGN_OR_RETURN(
      pair->world_,
      NcclWorld::Create(
          {.world_size = gpus,
           .arena =
               [pair = pair.get(), max_bytes](NcclRank& rank) {
                 return BufferView{
                     pair->memory_[static_cast<size_t>(pair->IndexOf(rank))]
                         .values.data(),
                     max_bytes / kFloat, DType::kFloat32, MemoryKind::kCuda};
               },
           .timeout = kPatience}));
  RETURN_IF_ERROR(pair->Connect());
  return pair;
}

int AllReducePair::IndexOf(const NcclRank& rank) {
  int index = 0;
  while (&world_->rank(index) != &rank) ++index;
  return index;
}

absl::Status AllReducePair::Connect() {
  for (int i = 0; i < gpus_; ++i) {
    RETURN_IF_ERROR(world_->rank(i).device->MakeCurrent());
    RETURN_IF_ERROR(Allocate(world_->rank(i), i));
  }
  RETURN_IF_ERROR(FirstOf(world_->Connect()));
  ASSIGN_OR_RETURN(const NcclLibrary library, NcclLibrary::Load());
  nccl_version_ = library.version();
  ncclUniqueId id;
  RETURN_IF_ERROR(library.ToStatus(library.functions().GetUniqueId(&id),
                                   "ncclGetUniqueId"));
  return FirstOf(world_->RunAll([&](NcclRank& rank) -> absl::Status {
    const int index = IndexOf(rank);
    const auto at = static_cast<size_t>(index);
    ASSIGN_OR_RETURN(direct_[at],
                     DirectNccl::Create(library, id, index, gpus_,
                                        memory_[at].values.data(), max_bytes_));
    return absl::OkStatus();
  }));
}

AllReducePair::~AllReducePair() {
  if (world_ == nullptr) return;
  // Their ends wait for each other.
  static_cast<void>(world_->RunAll([this](NcclRank& rank) {
    direct_[static_cast<size_t>(IndexOf(rank))] = nullptr;
    rank.communicator = nullptr;
    return absl::OkStatus();
  }));
}

absl::Status AllReducePair::Allocate(NcclRank& rank, int index) {
  Memory& memory = memory_[static_cast<size_t>(index)];
  Allocator& device = rank.device->allocator();
  ASSIGN_OR_RETURN(memory.values, device.Allocate(max_bytes_));
  ASSIGN_OR_RETURN(memory.source, device.Allocate(max_bytes_));
  ASSIGN_OR_RETURN(memory.result,
                   rank.device->pinned_allocator().Allocate(kPartBytes));
  auto* const values = static_cast<float*>(memory.result.data());
  for (int64_t i = 0; i < kPartBytes / kFloat; ++i) {
    values[i] = KnownValue(index, i);
  }
  auto* const source = static_cast<char*>(memory.source.data());
  for (int64_t at = 0; at < max_bytes_; at += kPartBytes) {
    rank.compute->CopyToDevice(source + at, values,
                               std::min(kPartBytes, max_bytes_ - at));
  }
  return rank.compute->Synchronize();
}

absl::Status AllReducePair::Fill(NcclRank& rank, int index, int64_t bytes) {
  const Memory& memory = memory_[static_cast<size_t>(index)];
  rank.compute->CopyOnDevice(memory.values.data(), memory.source.data(), bytes);
  return rank.compute->Synchronize();
}

absl::Status AllReducePair::Reduce(Side side, NcclRank& rank, int index,
                                   int64_t bytes, int times) {
  const auto at = static_cast<size_t>(index);
  auto* const values = static_cast<float*>(memory_[at].values.data());
  const int64_t count = bytes / kFloat;
  if (side == Side::kDirect) {
    return direct_[at]->AllReduce(values, count, times);
  }
  const CollectiveRequest request = AllReduceSum(
      BufferView{values, count, DType::kFloat32, MemoryKind::kCuda});
  std::vector<Ticket> tickets;
  for (int i = 0; i < times; ++i) {
    ASSIGN_OR_RETURN(const Ticket ticket, rank.communicator->Start(request));
    tickets.push_back(ticket);
  }
  const MonotonicTime deadline = Clock::Real().Now() + kPatience;
  for (const Ticket ticket : tickets) {
    RETURN_IF_ERROR(rank.communicator->Wait(ticket, deadline));
  }
  return absl::OkStatus();
}

absl::Status AllReducePair::Check(NcclRank& rank, int index, int64_t bytes,
                                  int times) {
  const Memory& memory = memory_[static_cast<size_t>(index)];
  const auto* const device = static_cast<const char*>(memory.values.data());
  const auto* const part = static_cast<const float*>(memory.result.data());
  for (int64_t at = 0; at < bytes; at += kPartBytes) {
    const int64_t here = std::min(kPartBytes, bytes - at);
    rank.compute->CopyToHost(memory.result.data(), device + at, here);
    RETURN_IF_ERROR(rank.compute->Synchronize());
    const std::optional<int64_t> wrong = FirstWrongSum(
        std::span(part, static_cast<size_t>(here / kFloat)), gpus_, times);
    if (wrong.has_value()) {
      return absl::DataLossError(absl::StrCat(
          "element ", at / kFloat + *wrong, " of ", bytes, " bytes is ",
          part[*wrong], ", not ", KnownSum(gpus_, times, *wrong)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> AllReducePair::Run(Side side, int64_t bytes,
                                                  int times) {
  std::vector<absl::Duration> took(static_cast<size_t>(gpus_));
  std::barrier barrier(gpus_);
  std::atomic<bool> is_ready = true;
  RETURN_IF_ERROR(FirstOf(world_->RunAll([&](NcclRank& rank) -> absl::Status {
    const int index = IndexOf(rank);
    const absl::Status filled = Fill(rank, index, bytes);
    if (!filled.ok()) is_ready = false;
    // Nobody waits in NCCL for a rank that cannot come.
    barrier.arrive_and_wait();
    if (!is_ready) return filled;
    const MonotonicTime begin = Clock::Real().Now();
    RETURN_IF_ERROR(Reduce(side, rank, index, bytes, times));
    took[static_cast<size_t>(index)] = Clock::Real().Now() - begin;
    return Check(rank, index, bytes, times);
  })));
  return *std::max_element(took.begin(), took.end());
}

}  // namespace ringmaster
