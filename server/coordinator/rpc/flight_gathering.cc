#include "server/coordinator/rpc/flight_gathering.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/core/account/hold_ups.h"

namespace ringmaster::coordinator {
namespace {

// Keeps the newest collectives that `max_bytes` hold, whatever the worker sent.
void Trim(v1::RankTrace& trace, size_t max_bytes) {
  trace.DiscardUnknownFields();
  size_t bytes = 0;
  int first = trace.spans_size();
  while (first > 0) {
    trace.mutable_spans(first - 1)->clear_track();
    bytes += trace.spans(first - 1).ByteSizeLong();
    if (bytes > max_bytes) break;
    --first;
  }
  trace.mutable_spans()->DeleteSubrange(0, first);
  trace.set_left_out_count(trace.left_out_count() + first);
}

template <typename Entries>
void SortByRank(Entries& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
}

class FlightGathering final : public Gathering {
 public:
  FlightGathering(const GatherFlight& asked, FlightReply reply)
      : world_size_(static_cast<int>(asked.members.size())),
        max_bytes_(std::min(
            kMaxFlightBytesOfOne,
            kMaxFlightBytes / std::max<size_t>(asked.members.size(), 1))),
        reply_(std::move(reply)) {
    record_.set_job_id(asked.job_id);
    record_.set_generation(asked.generation);
    record_.set_incident(asked.incident);
    for (const MemberLife& member : asked.members)
      ranks_.emplace(member.worker, member.rank);
  }

  // It has left the generation for good.
  void Lose(const std::string& worker) {
    lost_.insert(ranks_.at(worker));
    Miss(worker, "was lost");
  }

  v1::SessionResponse QuestionTo(const std::string& /*worker*/,
                                 int64_t request_id) const override {
    v1::SessionResponse message;
    v1::TraceRequest& request = *message.mutable_trace_request();
    request.set_request_id(request_id);
    request.set_generation(record_.generation());
    request.set_max_bytes(static_cast<int64_t>(max_bytes_));
    return message;
  }

  int64_t IdIn(const v1::SessionRequest& message) const override {
    return message.trace_reply().request_id();
  }

  void Add(const std::string& worker, v1::SessionRequest answer) override {
    v1::RankTrace& trace = *answer.mutable_trace_reply()->mutable_trace();
    if (trace.generation() != record_.generation()) {
      Miss(worker, absl::StrCat("answered of generation ", trace.generation()));
      return;
    }
    // The core has checked that, unless the worker has left the job meanwhile.
    for (const v1::TraceSpan& span : trace.spans()) {
      if (span.awaited_rank() < world_size_) continue;
      Miss(worker, absl::StrCat("named rank ", span.awaited_rank(), " of ",
                                world_size_));
      return;
    }
    trace.set_rank(ranks_.at(worker));
    trace.set_worker(worker);
    Trim(trace, max_bytes_);
    *record_.add_ranks() = std::move(trace);
  }

  void Miss(const std::string& worker, const std::string& why) override {
    v1::MissingRank& missing = *record_.add_missing();
    missing.set_rank(ranks_.at(worker));
    missing.set_worker(worker);
    missing.set_reason(why);
  }

  void Finish(const absl::Status& status) override {
    if (!status.ok()) {
      reply_(status);
      return;
    }
    SortByRank(*record_.mutable_ranks());
    SortByRank(*record_.mutable_missing());
    *record_.mutable_time() = ToProto(absl::Now());
    const std::vector<v1::HoldUp> hold_ups = FindHoldUps(record_, lost_);
    record_.mutable_hold_ups()->Assign(hold_ups.begin(), hold_ups.end());
    reply_(std::move(record_));
  }

 private:
  const int world_size_;
  const size_t max_bytes_;  // of each
  std::map<std::string, int> ranks_;
  std::set<int> lost_;
  v1::FlightRecord record_;
  FlightReply reply_;
};

}  // namespace

GatherFlight PresentFlight(const Job& job) {
  GatherFlight asked;
  asked.job_id = job.id;
  asked.generation = job.generation;
  for (const Member& member : job.members) {
    const MemberIdentity& identity = member.identity;
    if (identity.role != v1::ROLE_WORKER) break;
    asked.members.push_back(
        {identity.rank, identity.worker, identity.incarnation});
  }
  return asked;
}

void AskForCollectives(const State& state, const GatherFlight& asked,
                       MonotonicTime now, FlightReply reply,
                       Gatherings& gatherings) {
  auto gathering = std::make_unique<FlightGathering>(asked, std::move(reply));
  std::map<SessionId, std::string> sessions;
  for (const MemberLife& member : asked.members) {
    const Worker* const worker = state.FindWorker(member.worker);
    if (worker == nullptr || worker->incarnation != member.incarnation) {
      gathering->Lose(member.worker);
    } else if (worker->session == 0) {
      gathering->Miss(member.worker,
                      "has no session with the coordinator at present");
    } else if (!worker->records_collectives) {
      gathering->Miss(
          member.worker,
          absl::StrCat("is of an earlier release (", worker->version,
                       "), which does not send its collectives"));
    } else {
      sessions.emplace(worker->session, member.worker);
    }
  }
  gatherings.Start(std::move(gathering), std::move(sessions), now);
}

void FlightRecords::Keep(v1::FlightRecord record) {
  records_.push_back(std::move(record));
  if (records_.size() > kMaxRecords) records_.pop_front();
}

const v1::FlightRecord* FlightRecords::Find(std::string_view job_id,
                                            int incident) const {
  for (const v1::FlightRecord& record : records_) {
    if (record.job_id() == job_id && record.incident() == incident)
      return &record;
  }
  return nullptr;
}

}  // namespace ringmaster::coordinator
