#include "worker/collective/nccl/nccl_peers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "worker/collective/nccl/nccl_settings.h"

namespace ringmaster {
namespace {

// The facts as the host mesh carries them: whole words. Texts end with a 0.
struct FactsOnWire {
  int64_t version;
  int64_t is_ring;
  int64_t shares_gpu;
  char gpu_uuid[48];
  char host_name[64];
  char error[224];
};
struct IdOnWire {
  char id[kNcclIdBytes];
  char error[256];  // empty: there is an id
};
static_assert(sizeof(FactsOnWire) % sizeof(int64_t) == 0);
static_assert(sizeof(IdOnWire) % sizeof(int64_t) == 0);

template <size_t kBytes>
void Put(const std::string& text, char (&place)[kBytes]) {
  const size_t length = std::min(text.size(), kBytes - 1);
  std::memcpy(place, text.data(), length);
  place[length] = '\0';
}

// Tolerates a missing terminating 0, since a peer may send any bytes.
template <size_t kBytes>
std::string Get(const char (&place)[kBytes]) {
  return std::string(place, strnlen(place, kBytes));
}

std::string Name(std::span<const NcclRankFacts> ranks, size_t rank) {
  return absl::StrCat("rank ", rank, " (", ranks[rank].host_name, ")");
}

absl::Status CheckSame(std::span<const NcclRankFacts> ranks, size_t rank) {
  if (ranks[rank].version != ranks[0].version) {
    return absl::FailedPreconditionError(absl::StrCat(
        Name(ranks, 0), " has NCCL ", NcclVersionText(ranks[0].version),
        " and ", Name(ranks, rank), " has ",
        NcclVersionText(ranks[rank].version),
        ": all workers of a job need the same"));
  }
  if (ranks[rank].settings != ranks[0].settings) {
    return absl::FailedPreconditionError(absl::StrCat(
        Name(ranks, 0), " has the NCCL settings ", ToText(ranks[0].settings),
        " and ", Name(ranks, rank), " has ", ToText(ranks[rank].settings),
        ": all workers of a job need the same"));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnGpu(std::span<const NcclRankFacts> ranks, size_t rank) {
  for (size_t other = 0; other < rank; ++other) {
    if (ranks[other].gpu_uuid != ranks[rank].gpu_uuid) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(Name(ranks, other), " and ", Name(ranks, rank),
                     " both use ", ranks[rank].gpu_uuid,
                     ": give each worker a GPU of its own (--slots, "
                     "CUDA_VISIBLE_DEVICES), or, for a test only, set ",
                     kShareGpuVariable, "=1 for all"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string NcclVersionText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

absl::Status CheckNcclRanks(std::span<const NcclRankFacts> ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].error.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        Name(ranks, rank), " cannot use NCCL: ", ranks[rank].error));
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    RETURN_IF_ERROR(CheckSame(ranks, rank));
    if (ranks[rank].settings.share_gpu) continue;
    RETURN_IF_ERROR(CheckOwnGpu(ranks, rank));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NcclRankFacts>> ExchangeNcclFacts(
    const NcclRankFacts& own, Communicator& host, MonotonicTime deadline) {
  constexpr size_t kWords = sizeof(FactsOnWire) / sizeof(int64_t);
  const auto world_size = static_cast<size_t>(host.world_size());
  FactsOnWire facts = {};
  facts.version = own.version;
  facts.is_ring = own.settings.ring ? 1 : 0;
  facts.shares_gpu = own.settings.share_gpu ? 1 : 0;
  Put(own.gpu_uuid, facts.gpu_uuid);
  Put(own.host_name, facts.host_name);
  Put(own.error, facts.error);
  std::vector<int64_t> words(kWords * world_size);
  std::memcpy(words.data() + kWords * static_cast<size_t>(host.rank()), &facts,
              sizeof(facts));
  RETURN_IF_ERROR(host.Run(AllGather(BufferView::Of(words)), deadline));

  std::vector<NcclRankFacts> ranks;
  for (size_t rank = 0; rank < world_size; ++rank) {
    std::memcpy(&facts, words.data() + kWords * rank, sizeof(facts));
    ranks.push_back({.version = static_cast<int>(facts.version),
                     .gpu_uuid = Get(facts.gpu_uuid),
                     .host_name = Get(facts.host_name),
                     .settings = {.share_gpu = facts.shares_gpu != 0,
                                  .ring = facts.is_ring != 0},
                     .error = Get(facts.error)});
  }
  return ranks;
}

absl::StatusOr<NcclId> AgreeOnNcclId(
    const std::function<absl::StatusOr<NcclId>()>& make, Communicator& host,
    MonotonicTime deadline) {
  IdOnWire message = {};
  if (host.rank() == 0) {
    const absl::StatusOr<NcclId> id = make();
    if (id.ok()) {
      std::memcpy(message.id, id->data(), kNcclIdBytes);
    } else {
      Put(std::string(id.status().message()), message.error);
    }
  }
  std::vector<int64_t> words(sizeof(message) / sizeof(int64_t));
  std::memcpy(words.data(), &message, sizeof(message));
  RETURN_IF_ERROR(host.Run(Broadcast(BufferView::Of(words), 0), deadline));

  std::memcpy(&message, words.data(), sizeof(message));
  const std::string error = Get(message.error);
  if (!error.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank 0 cannot make an NCCL id: ", error));
  }
  NcclId id;
  std::memcpy(id.data(), message.id, kNcclIdBytes);
  return id;
}

}  // namespace ringmaster
