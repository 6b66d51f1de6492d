#include "server/coordinator/journal/compaction.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "common/status/status_macros.h"
#include "server/coordinator/journal/record_codec.h"

namespace ringmaster::coordinator {
namespace {

// Less is not worth a commit.
constexpr int64_t kLeastRecords = 256;
constexpr int64_t kLeastBytes = 1 << 20;

// A filler's row has about this size.
constexpr int64_t kFillerBytes = 64;

// Records are numbered from 1.
int64_t NumberOf(size_t index) { return static_cast<int64_t>(index) + 1; }

absl::StatusOr<Row> ReadAs(Database& database, int64_t number, Fate fate) {
  ASSIGN_OR_RETURN(Row row, database.ReadRow(number));
  if (fate != Fate::kTrim) return row;
  ASSIGN_OR_RETURN(JournalRecord record, Decode(row));
  return Encode(Trimmed(std::move(record)));
}

}  // namespace

void Compaction::Add(RecordDigest digest, int64_t bytes) {
  digests_.push_back(std::move(digest));
  bytes_.push_back(bytes);
  ++added_records_;
  added_bytes_ += bytes;
}

bool Compaction::IsDue() const {
  return is_under_way_ ||
         added_records_ >= std::max(kLeastRecords, left_records_) ||
         added_bytes_ >= std::max(kLeastBytes, left_bytes_);
}

void Compaction::BeginRound() {
  is_under_way_ = true;
  fates_ = FatesOf(digests_, max_ended_jobs_);
  next_ = 0;
  // Those before the first that is dropped stay where they are.
  end_ = 0;
  added_records_ = added_bytes_ = 0;
}

absl::Status Compaction::Pass(Database& database, int64_t max_bytes) {
  if (!is_under_way_) BeginRound();
  const absl::Status status = TryPass(database, max_bytes);
  is_under_way_ = status.ok() && next_ < digests_.size();
  return status;
}

absl::Status Compaction::TryPass(Database& database, int64_t max_bytes) {
  // Those that were added since the round began.
  fates_.resize(digests_.size(), Fate::kKeep);
  std::vector<Step> steps;
  std::map<int64_t, Row> rows;
  size_t next = next_;
  size_t end = end_;
  int64_t bytes = 0;
  for (; next < digests_.size() && bytes < max_bytes; ++next) {
    const Fate fate = fates_[next];
    if (fate == Fate::kDrop) {
      for (const size_t index : DroppedWith(next)) {
        rows[NumberOf(index)] = Encode(Filler());
        steps.push_back({index, index, fate});
        bytes += kFillerBytes;
      }
      continue;
    }
    if (fate == Fate::kTrim || end < next) {
      ASSIGN_OR_RETURN(Row row, ReadAs(database, NumberOf(next), fate));
      bytes += bytes_[next];
      steps.push_back({next, end, fate, BytesOf(row)});
      if (end < next) rows[NumberOf(next)] = Encode(Filler());
      rows[NumberOf(end)] = std::move(row);
    }
    ++end;
  }
  const bool is_done = next == digests_.size();
  const size_t left = is_done ? end : digests_.size();
  if (!rows.empty() || left < digests_.size()) {
    RETURN_IF_ERROR(
        database.Replace(rows, /*last=*/static_cast<int64_t>(left)));
  }
  next_ = next;
  end_ = end;
  for (const Step& step : steps) Apply(step);
  if (is_done) {
    digests_.resize(end);
    bytes_.resize(end);
    next_ = end;
    left_records_ = static_cast<int64_t>(end);
    left_bytes_ = std::accumulate(bytes_.begin(), bytes_.end(), int64_t{0});
  }
  return absl::OkStatus();
}

std::vector<size_t> Compaction::DroppedWith(size_t index) const {
  const RecordDigest& digest = digests_[index];
  if (digest.is_filler) return {};
  if (digest.type != JournalRecord(JobCreatedRecord()).index()) return {index};
  std::vector<size_t> all;
  for (size_t i = index; i < digests_.size(); ++i) {
    if (digests_[i].job_id == digest.job_id) all.push_back(i);
  }
  return all;
}

void Compaction::Apply(const Step& step) {
  const auto make_filler = [this](size_t index) {
    digests_[index] = DigestOf(Filler());
    bytes_[index] = kFillerBytes;
  };
  if (step.fate == Fate::kDrop) {
    make_filler(step.from);
    return;
  }
  digests_[step.to] = digests_[step.from];
  digests_[step.to].is_trimmed |= step.fate == Fate::kTrim;
  bytes_[step.to] = step.bytes;
  if (step.to < step.from) make_filler(step.from);
}

}  // namespace ringmaster::coordinator
