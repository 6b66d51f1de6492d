#include "server/coordinator/core/state/retention.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

namespace ringmaster::coordinator {
namespace {

// As many generations without a step in between stay; one that has more is not
// going to be helped by the members of the first.
constexpr size_t kMaxSinceStep = 16;

template <typename Record>
bool Is(const RecordDigest& digest) {
  return digest.type == JournalRecord(Record()).index();
}

struct DigestVisitor {
  RecordDigest& digest;

  void operator()(const GenerationFormedRecord& record) {
    digest.generation = record.generation;
    digest.resume_step = record.resume_step;
    digest.formed_by = record.formed_by;
    digest.is_rollback = record.is_rollback;
    digest.has_since = !record.since.empty();
    digest.is_trimmed = record.members.size() <= 1 && record.placements.empty();
    digest.time = record.time;
  }
  void operator()(const VerdictReachedRecord& record) {
    digest.generation = record.verdict.generation();
  }
  void operator()(const HostQuarantinedRecord& record) {
    digest.end_time = record.end_time;
    digest.is_filler = record.host_key.empty() && record.job_id.empty();
    digest.time = record.time;
  }
  void operator()(const CordonedRecord& record) {
    digest.target = record.target;
    digest.is_lifted = record.is_lifted;
    digest.time = record.time;
  }
  void operator()(const JobChangedRecord& record) {
    unsigned bit = 1;
    for (const bool is_set :
         {record.priority.has_value(), record.is_suspended.has_value(),
          record.place_after != 0, record.min_workers.has_value(),
          record.max_workers.has_value(), record.queue.has_value()}) {
      if (is_set) digest.sets |= bit;
      bit <<= 1;
    }
    digest.time = record.time;
  }
  template <typename Other>
  void operator()(const Other& record) {
    digest.time = record.time;
  }
};

// The places of a job's records.
struct JobRecords {
  bool is_live = true;
  std::vector<size_t> generations;
  std::vector<size_t> verdicts;
  std::vector<size_t> changes;
  std::vector<size_t> suspensions;
};

using Jobs = std::unordered_map<std::string_view, JobRecords>;

Jobs JobsOf(const std::vector<RecordDigest>& records) {
  Jobs jobs;
  for (size_t i = 0; i < records.size(); ++i) {
    JobRecords& job = jobs[records[i].job_id];
    if (Is<GenerationFormedRecord>(records[i])) job.generations.push_back(i);
    if (Is<VerdictReachedRecord>(records[i])) job.verdicts.push_back(i);
    if (Is<JobChangedRecord>(records[i])) job.changes.push_back(i);
    if (Is<JobSuspendedRecord>(records[i])) job.suspensions.push_back(i);
    if (Is<JobEndedRecord>(records[i])) job.is_live = false;
  }
  return jobs;
}

// The jobs of which nothing is needed.
std::set<std::string_view> LongOver(const std::vector<RecordDigest>& records,
                                    int max_ended_jobs) {
  std::set<std::string_view> over;
  std::string_view last_created;
  const RecordDigest* newest = nullptr;
  int ended = 0;
  for (auto it = records.rbegin(); it != records.rend(); ++it) {
    if (Is<JobEndedRecord>(*it) && ++ended > max_ended_jobs) {
      over.insert(it->job_id);
    } else if (Is<JobCreatedRecord>(*it) && last_created.empty()) {
      last_created = it->job_id;
    } else if (Is<GenerationFormedRecord>(*it) &&
               (newest == nullptr || it->generation > newest->generation)) {
      newest = &*it;
    }
  }
  over.erase(last_created);
  if (newest != nullptr) over.erase(newest->job_id);
  return over;
}

class LiveJob {
 public:
  LiveJob(const std::vector<RecordDigest>& records, const JobRecords& job)
      : records_(records), job_(job) {}

  void Settle(std::vector<Fate>& fates) const {
    std::set<int64_t> kept;
    for (size_t k = 0; k < job_.generations.size(); ++k) {
      if (IsNeeded(k)) {
        kept.insert(At(k).generation);
      } else {
        fates[job_.generations[k]] = Fate::kDrop;
      }
    }
    for (const size_t verdict : job_.verdicts) {
      if (verdict != job_.verdicts.back() &&
          !kept.contains(records_[verdict].generation)) {
        fates[verdict] = Fate::kDrop;
      }
    }
  }

 private:
  const RecordDigest& At(size_t k) const {
    return records_[job_.generations[k]];
  }

  // The job was suspended between the generation before `k` and that one: the first is
  // the one that ended then, the other the first of a stay.
  bool BeginsStay(size_t k) const {
    return std::ranges::any_of(job_.suspensions, [&](size_t suspension) {
      return job_.generations[k - 1] < suspension &&
             suspension < job_.generations[k];
    });
  }

  bool IsNeeded(size_t k) const {
    const size_t last = job_.generations.size() - 1;
    if (k == 0 || k == last || BeginsStay(k) || BeginsStay(k + 1)) return true;
    const RecordDigest& self = At(k);
    const RecordDigest& next = At(k + 1);
    // Only the generation before says since when its members are in the job.
    if (self.is_rollback || next.is_rollback || !next.has_since) return true;
    if (self.formed_by != At(k - 1).formed_by ||
        self.formed_by != next.formed_by) {
      return true;
    }
    // Later ones go back only by a rollback, or if nobody was told of this one.
    return last - k < kMaxSinceStep && self.resume_step == At(last).resume_step;
  }

  const std::vector<RecordDigest>& records_;
  const JobRecords& job_;
};

void SettleEnded(const std::vector<RecordDigest>& records,
                 const JobRecords& job, std::vector<Fate>& fates) {
  for (const size_t i : job.generations) {
    if (i == job.generations.back()) {
      fates[i] = Fate::kKeep;
    } else if (i != job.generations.front()) {
      fates[i] = Fate::kDrop;
    } else {
      fates[i] = records[i].is_trimmed ? Fate::kKeep : Fate::kTrim;
    }
  }
  // The end has the last one.
  for (const size_t i : job.verdicts) fates[i] = Fate::kDrop;
  // Only one after which it had no members any more tells something.
  for (const size_t i : job.suspensions) {
    const bool is_last =
        i == job.suspensions.back() &&
        (job.generations.empty() || i > job.generations.back());
    if (!is_last) fates[i] = Fate::kDrop;
  }
}

// The last change of each of a job's properties is needed.
void DropOldChanges(const std::vector<RecordDigest>& records,
                    const JobRecords& job, std::vector<Fate>& fates) {
  unsigned set_later = 0;
  for (auto it = job.changes.rbegin(); it != job.changes.rend(); ++it) {
    const unsigned sets = records[*it].sets;
    if ((sets & ~set_later) == 0) fates[*it] = Fate::kDrop;
    set_later |= sets;
  }
}

void DropOldAudit(const std::vector<RecordDigest>& records,
                  std::vector<Fate>& fates) {
  size_t kept = 0;
  for (size_t i = records.size(); i-- > 0;) {
    if (Is<AuditedRecord>(records[i]) && ++kept > kMaxAudited) {
      fates[i] = Fate::kDrop;
    }
  }
}

// The last one has everything.
void DropOldQueues(const std::vector<RecordDigest>& records,
                   std::vector<Fate>& fates) {
  bool has_last = false;
  for (size_t i = records.size(); i-- > 0;) {
    if (!Is<QueuesChangedRecord>(records[i])) continue;
    if (std::exchange(has_last, true)) fates[i] = Fate::kDrop;
  }
}

// The last cordon under a name is needed, unless it is lifted.
void DropOldCordons(const std::vector<RecordDigest>& records,
                    std::vector<Fate>& fates) {
  std::set<std::string_view> seen;
  for (size_t i = records.size(); i-- > 0;) {
    if (!Is<CordonedRecord>(records[i])) continue;
    if (!seen.insert(records[i].target).second || records[i].is_lifted) {
      fates[i] = Fate::kDrop;
    }
  }
}

}  // namespace

RecordDigest DigestOf(const JournalRecord& record) {
  RecordDigest digest;
  digest.type = record.index();
  digest.job_id = JobIdOf(record);
  std::visit(DigestVisitor{digest}, record);
  return digest;
}

std::vector<Fate> FatesOf(const std::vector<RecordDigest>& records,
                          int max_ended_jobs) {
  std::vector<Fate> fates(records.size(), Fate::kKeep);
  for (const auto& [id, job] : JobsOf(records)) {
    DropOldChanges(records, job, fates);
    if (!job.is_live) {
      SettleEnded(records, job, fates);
    } else if (!job.generations.empty()) {
      LiveJob(records, job).Settle(fates);
    }
  }
  DropOldAudit(records, fates);
  DropOldCordons(records, fates);
  DropOldQueues(records, fates);
  const std::set<std::string_view> over = LongOver(records, max_ended_jobs);
  absl::Time newest = absl::InfinitePast();
  for (const RecordDigest& digest : records) {
    newest = std::max(newest, digest.time);
  }
  for (size_t i = 0; i < records.size(); ++i) {
    const bool is_past =
        Is<HostQuarantinedRecord>(records[i]) && records[i].end_time <= newest;
    if (records[i].is_filler || is_past || over.contains(records[i].job_id)) {
      fates[i] = Fate::kDrop;
    }
  }
  return fates;
}

JournalRecord Trimmed(JournalRecord record) {
  if (auto* const formed = std::get_if<GenerationFormedRecord>(&record)) {
    formed->members.resize(std::min<size_t>(formed->members.size(), 1));
    formed->placements.clear();
    formed->since.resize(std::min<size_t>(formed->since.size(), 1));
  }
  return record;
}

JournalRecord Filler() { return HostQuarantinedRecord(); }

}  // namespace ringmaster::coordinator
