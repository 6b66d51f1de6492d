#include "worker/train/exchange/commit.h"

#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int kWords = 9;
using RecordWords = std::array<int64_t, kWords>;

RecordWords ToWords(const CommitRecord& record) {
  return {record.generation,
          record.step,
          std::bit_cast<int64_t>(record.loss_sum),
          record.sample_count,
          std::bit_cast<int64_t>(record.sample_hash),
          std::bit_cast<int64_t>(record.norm_squared),
          std::bit_cast<int64_t>(record.parameters_hash),
          record.payload_sent_bytes,
          (record.wants_stop ? 1 : 0) | (record.wants_drain ? 2 : 0) |
              (record.wants_leave ? 4 : 0)};
}

CommitRecord FromWords(std::span<const int64_t, kWords> words) {
  CommitRecord record;
  record.generation = words[0];
  record.step = words[1];
  record.loss_sum = std::bit_cast<double>(words[2]);
  record.sample_count = words[3];
  record.sample_hash = std::bit_cast<uint64_t>(words[4]);
  record.norm_squared = std::bit_cast<double>(words[5]);
  record.parameters_hash = std::bit_cast<uint64_t>(words[6]);
  record.payload_sent_bytes = words[7];
  record.wants_stop = (words[8] & 1) != 0;
  record.wants_drain = (words[8] & 2) != 0;
  record.wants_leave = (words[8] & 4) != 0;
  return record;
}

absl::Status Differ(int64_t step, size_t rank, const std::string& what) {
  return WithExitCode(absl::FailedPreconditionError(absl::StrCat(
                          "at step ", step, ", ranks 0 and ", rank, " ", what)),
                      ExitCode::kPlanMismatch);
}

// Checks the values that must be equal on all ranks.
absl::Status CheckEqual(std::span<const CommitRecord> records,
                        const CommitExpectation& expected) {
  const CommitRecord& first = records[0];
  for (size_t rank = 0; rank < records.size(); ++rank) {
    const CommitRecord& record = records[rank];
    if (record.generation != expected.generation ||
        record.step != expected.step) {
      return Differ(expected.step, rank,
                    absl::StrCat("commit different steps: generation ",
                                 expected.generation, " step ", expected.step,
                                 " and generation ", record.generation,
                                 " step ", record.step));
    }
    // By bits: ranks must agree exactly, and a NaN equals itself.
    if (!expected.are_norms_of_parts &&
        std::bit_cast<uint64_t>(record.norm_squared) !=
            std::bit_cast<uint64_t>(first.norm_squared)) {
      return Differ(
          expected.step, rank,
          absl::StrFormat(
              "hold different reduced gradients: norms %.17g and %.17g",
              std::sqrt(first.norm_squared), std::sqrt(record.norm_squared)));
    }
    if (record.parameters_hash != first.parameters_hash) {
      return Differ(
          expected.step, rank,
          absl::StrFormat("hold different parameters: hashes %016x and %016x",
                          first.parameters_hash, record.parameters_hash));
    }
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t HashSampleId(int64_t sample_id) {
  uint64_t z = static_cast<uint64_t>(sample_id) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

absl::StatusOr<CommitSummary> CombineCommits(
    std::span<const CommitRecord> records, const CommitExpectation& expected) {
  RETURN_IF_ERROR(CheckEqual(records, expected));
  CommitSummary summary;
  double loss_sum = 0;
  int64_t sample_count = 0;
  uint64_t sample_hash = 0;
  summary.all_leave = !records.empty();
  for (const CommitRecord& record : records) {
    loss_sum += record.loss_sum;
    sample_count += record.sample_count;
    // A sum, so neither the order of samples nor their division among ranks
    // matters.
    sample_hash += record.sample_hash;
    summary.stop |= record.wants_stop;
    summary.drain |= record.wants_drain;
    summary.all_leave &= record.wants_leave;
  }
  summary.stop |= summary.all_leave;
  if (sample_count != expected.global_batch ||
      sample_hash != expected.sample_hash) {
    return WithExitCode(
        absl::FailedPreconditionError(absl::StrFormat(
            "at step %d the ranks together used %d samples with ledger %016x; "
            "the global batch has %d with ledger %016x",
            expected.step, sample_count, sample_hash, expected.global_batch,
            expected.sample_hash)),
        ExitCode::kPlanMismatch);
  }
  summary.mean_loss =
      loss_sum /
      static_cast<double>(expected.global_batch * expected.targets_per_sample);
  summary.norm_squared = records[0].norm_squared;
  for (size_t rank = 1; expected.are_norms_of_parts && rank < records.size();
       ++rank)
    summary.norm_squared += records[rank].norm_squared;
  summary.is_finite = std::isfinite(summary.norm_squared);
  return summary;
}

absl::StatusOr<std::vector<CommitRecord>> ExchangeCommit(
    Communicator& communicator, const CommitRecord& record,
    MonotonicTime deadline, std::vector<int64_t>& words) {
  const size_t world_size = static_cast<size_t>(communicator.world_size());
  words.resize(world_size * kWords);
  const RecordWords own = ToWords(record);
  std::copy(own.begin(), own.end(),
            words.begin() + communicator.rank() * kWords);

  CollectiveRequest request =
      AllGather(BufferView::Of(std::span<int64_t>(words)));
  request.trace_step = record.step;
  RETURN_IF_ERROR(communicator.Run(request, deadline));

  std::vector<CommitRecord> records;
  records.reserve(world_size);
  for (size_t rank = 0; rank < world_size; ++rank) {
    records.push_back(FromWords(std::span<const int64_t, kWords>(
        words.data() + rank * kWords, kWords)));
  }
  return records;
}

}  // namespace ringmaster
