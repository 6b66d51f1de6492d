#include "server/coordinator/rpc/status_changes.h"

#include <utility>

#include "absl/time/time.h"
#include "common/protocol/proto_time.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "xxhash.h"

namespace ringmaster::coordinator {
namespace {

// Those that were heard within this long are equally alive.
constexpr absl::Duration kAlive = absl::Seconds(1);
constexpr absl::Duration kForecastPrecision = absl::Seconds(10);

uint64_t DigestOf(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    // Labels are a map, whose order may differ from one message to the next.
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

void SettleAge(google::protobuf::Duration& age) {
  // A silence that grows is no news once it has begun.
  age = ToProto(FromProto(age) < kAlive ? absl::ZeroDuration() : kAlive);
}

uint64_t DigestOfWorker(v1::Worker worker) {
  SettleAge(*worker.mutable_last_beat_age());
  return DigestOf(worker);
}

uint64_t DigestOfJob(v1::Job job, absl::Time now) {
  for (v1::Member& member : *job.mutable_members()) {
    if (member.has_last_heard_age())
      SettleAge(*member.mutable_last_heard_age());
  }
  // The time that passes.
  job.clear_goodput();
  // A forecast is the same as long as it is of the same moment, more or less.
  if (job.has_predicted_wait()) {
    const absl::Duration at =
        now + FromProto(job.predicted_wait()) - absl::UnixEpoch();
    *job.mutable_predicted_wait() =
        ToProto(absl::Floor(at, kForecastPrecision));
  }
  return DigestOf(job);
}

uint64_t DigestOfRest(const v1::Status& status) {
  v1::Status rest;
  *rest.mutable_coordinator() = status.coordinator();
  *rest.mutable_quarantines() = status.quarantines();
  *rest.mutable_cordons() = status.cordons();
  *rest.mutable_queues() = status.queues();
  // It grows all the time.
  for (v1::Queue& queue : *rest.mutable_queues()) {
    queue.clear_used_worker_seconds();
  }
  return DigestOf(rest);
}

// Takes those of `entries` out that the watcher surely has as they are now, and doubts
// the others. Adds the names to `gone` that it may have and that are not there any more.
template <typename Entries, typename Name, typename Names>
void KeepNews(const std::map<std::string, uint64_t>& sent,
              const std::map<std::string, uint64_t>& now, Name name,
              std::set<std::string>& doubts, Entries& entries, Names& gone) {
  for (const std::string& told : doubts) {
    if (!now.contains(told)) *gone.Add() = told;
  }
  for (const auto& [told, digest] : sent) {
    if (now.contains(told) || doubts.contains(told)) continue;
    *gone.Add() = told;
    doubts.insert(told);
  }
  int kept = 0;
  for (int i = 0; i < entries.size(); ++i) {
    const std::string& key = name(entries.Get(i));
    const auto before = sent.find(key);
    const bool is_same = before != sent.end() && before->second == now.at(key);
    if (is_same && !doubts.contains(key)) continue;
    doubts.insert(key);
    entries.SwapElements(kept++, i);
  }
  entries.DeleteSubrange(kept, entries.size() - kept);
}

const std::string& NameOf(const v1::Worker& worker) { return worker.name(); }
const std::string& IdOf(const v1::Job& job) { return job.id(); }

}  // namespace

StatusChanges::Told StatusChanges::Digest(const v1::Status& status) {
  Told told;
  const absl::Time now = FromProto(status.time());
  for (const v1::Worker& worker : status.workers()) {
    told.workers.emplace(worker.name(), DigestOfWorker(worker));
  }
  for (const v1::Job& job : status.jobs()) {
    told.jobs.emplace(job.id(), DigestOfJob(job, now));
  }
  told.rest = DigestOfRest(status);
  return told;
}

std::shared_ptr<const v1::WatchStatusResponse> StatusChanges::Next(
    v1::Status status, bool has_waiting) {
  Told now = Digest(status);
  auto message = std::make_shared<v1::WatchStatusResponse>();
  *message->mutable_status() = std::move(status);
  if (!has_waiting) {
    sent_ = offered_;
    doubts_ = Doubts();
    is_whole_waiting_ = false;
  }
  // What waits is dropped, so that this one has to be the whole instead of it.
  const bool is_whole = is_first_ || is_whole_waiting_;
  if (!is_whole) {
    message->set_is_change(true);
    KeepNews(sent_.workers, now.workers, NameOf, doubts_.workers,
             *message->mutable_status()->mutable_workers(),
             *message->mutable_gone_workers());
    KeepNews(sent_.jobs, now.jobs, IdOf, doubts_.jobs,
             *message->mutable_status()->mutable_jobs(),
             *message->mutable_gone_jobs());
    const bool is_news = !doubts_.workers.empty() || !doubts_.jobs.empty() ||
                         sent_.rest != now.rest;
    // In the place of one that waits a message goes out in any case.
    if (!is_news && !has_waiting) {
      offered_ = std::move(now);
      return nullptr;
    }
  }
  is_first_ = false;
  is_whole_waiting_ = is_whole;
  offered_ = std::move(now);
  return message;
}

}  // namespace ringmaster::coordinator
