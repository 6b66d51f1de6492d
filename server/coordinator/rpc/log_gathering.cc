#include "server/coordinator/rpc/log_gathering.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging/log_proto.h"
#include "common/logging/logging.h"
#include "common/status/reason.h"

namespace ringmaster::coordinator {
namespace {

// A process that is asked.
struct Source {
  uint64_t incarnation = 0;
  int rank = -1;
};

// Keeps the newest lines that `max_bytes` hold, whatever the worker sent.
void Trim(v1::LogPage& page, size_t max_bytes) {
  size_t bytes = 0;
  int first = page.lines_size();
  while (first > 0) {
    bytes += page.lines(first - 1).ByteSizeLong();
    if (bytes > max_bytes) break;
    --first;
  }
  page.mutable_lines()->DeleteSubrange(0, first);
  page.set_left_out_count(page.left_out_count() + first);
}

class LogGathering final : public Gathering {
 public:
  LogGathering(const v1::GetLogsRequest& request,
               std::map<std::string, Source> sources,
               v1::GetLogsResponse response, LogsReply reply)
      : filter_(request.filter()),
        sources_(std::move(sources)),
        max_bytes_(
            std::min(kMaxLogBytesOfOne,
                     kMaxLogBytes / std::max<size_t>(sources_.size(), 1))),
        response_(std::move(response)),
        reply_(std::move(reply)) {
    for (const v1::LogCursor& cursor : request.cursors())
      cursors_[cursor.incarnation()] = cursor.sequence();
  }

  v1::SessionResponse QuestionTo(const std::string& worker,
                                 int64_t request_id) const override {
    v1::SessionResponse message;
    v1::LogRequest& request = *message.mutable_log_request();
    request.set_request_id(request_id);
    *request.mutable_filter() = filter_;
    const auto cursor = cursors_.find(sources_.at(worker).incarnation);
    if (cursor != cursors_.end()) request.set_after_sequence(cursor->second);
    request.set_max_bytes(static_cast<int64_t>(max_bytes_));
    return message;
  }

  int64_t IdIn(const v1::SessionRequest& message) const override {
    return message.log_reply().request_id();
  }

  void Add(const std::string& worker, v1::SessionRequest answer) override {
    const Source& source = sources_.at(worker);
    v1::ProcessLog& log = *response_.add_logs();
    log.set_name(worker);
    log.set_incarnation(source.incarnation);
    log.set_rank(source.rank);
    *log.mutable_page() =
        std::move(*answer.mutable_log_reply()->mutable_page());
    Trim(*log.mutable_page(), max_bytes_);
  }

  void Miss(const std::string& worker, const std::string& why) override {
    v1::MissingLog& missing = *response_.add_missing();
    missing.set_worker(worker);
    missing.set_reason(why);
  }

  void Finish(const absl::Status& status) override {
    if (!status.ok()) {
      reply_(status);
      return;
    }
    std::sort(
        response_.mutable_logs()->begin(), response_.mutable_logs()->end(),
        [](const v1::ProcessLog& a, const v1::ProcessLog& b) {
          return std::pair(a.rank(), a.name()) < std::pair(b.rank(), b.name());
        });
    reply_(std::move(response_));
  }

 private:
  const v1::LogFilter filter_;
  const std::map<std::string, Source> sources_;  // by worker
  const size_t max_bytes_;                       // of each
  std::map<uint64_t, int64_t> cursors_;
  v1::GetLogsResponse response_;
  LogsReply reply_;
};

// Why a worker cannot be asked, or that it is not known.
class Candidates {
 public:
  Candidates(const State& state, const EventLog& events,
             const LogPlaces& places)
      : state_(state), events_(events), places_(places) {}

  // `incarnation` is the process that is meant; 0: whoever has the name.
  void Add(const std::string& name, uint64_t incarnation, int rank) {
    const Worker* const worker = state_.FindWorker(name);
    if (worker == nullptr) {
      AddGone(name);
    } else if (incarnation != 0 && worker->incarnation != incarnation) {
      AddMissing(name,
                 "was started again since, and its lines then are gone: "
                 "ask for the worker by its name for those of its new "
                 "process");
    } else if (worker->session == 0) {
      AddMissing(name, "has no session with the coordinator at present");
    } else if (!worker->sends_logs) {
      AddMissing(name,
                 absl::StrCat("is of an earlier release (", worker->version,
                              "), which does not send its log"));
    } else {
      sessions.emplace(worker->session, name);
      sources.emplace(name, Source{worker->incarnation, rank});
    }
  }

  std::map<SessionId, std::string> sessions;
  std::map<std::string, Source> sources;
  v1::GetLogsResponse response;

 private:
  void AddGone(const std::string& name) {
    const v1::Event* const last = events_.LastOf(name);
    AddMissing(name, last == nullptr
                         ? "is gone"
                         : absl::StrCat("is gone: ", last->message()));
  }

  void AddMissing(const std::string& name, std::string reason) {
    v1::MissingLog& missing = *response.add_missing();
    missing.set_worker(name);
    missing.set_reason(std::move(reason));
    const LogPlaces::Place* const place = places_.Find(name);
    if (place == nullptr) return;
    missing.set_host(place->host);
    missing.set_log_file(place->log_file);
  }

  const State& state_;
  const EventLog& events_;
  const LogPlaces& places_;
};

absl::Status Unknown(const std::string& worker) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("no worker or parameter server ", worker,
                                       " has been heard of")),
      reason::kInvalidRequest);
}

}  // namespace

void LogPlaces::Note(const HelloReceived& hello) {
  const auto [it, is_new] = places_.try_emplace(hello.name);
  // A worker of an earlier release does not say whether it has a file.
  it->second = hello.sends_logs
                   ? Place{.host = hello.host, .log_file = hello.log_file}
                   : Place{};
  if (!is_new) return;
  names_.push_back(hello.name);
  if (names_.size() <= kMaxPlaces) return;
  places_.erase(names_.front());
  names_.pop_front();
}

const LogPlaces::Place* LogPlaces::Find(const std::string& worker) const {
  const auto it = places_.find(worker);
  return it == places_.end() ? nullptr : &it->second;
}

absl::Status CheckLogs(const v1::GetLogsRequest& request) {
  if (request.source_case() == v1::GetLogsRequest::SOURCE_NOT_SET) {
    return WithReason(
        absl::InvalidArgumentError("a job, a worker or the coordinator must be "
                                   "named"),
        reason::kInvalidRequest);
  }
  if (request.filter().tail() < 0) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat(
            "filter.tail must not be negative, got ", request.filter().tail())),
        reason::kInvalidRequest);
  }
  return absl::OkStatus();
}

v1::GetLogsResponse OwnLogs(const v1::GetLogsRequest& request,
                            uint64_t incarnation) {
  int64_t after = 0;
  for (const v1::LogCursor& cursor : request.cursors())
    if (cursor.incarnation() == incarnation) after = cursor.sequence();
  v1::GetLogsResponse response;
  v1::ProcessLog& log = *response.add_logs();
  log.set_name("coordinator");
  log.set_incarnation(incarnation);
  log.set_rank(-1);
  *log.mutable_page() =
      ToProto(SelectLog(ToLogSelection(request.filter(), after, kMaxLogBytes)));
  return response;
}

void GatherLogs(const State& state, const EventLog& events,
                const LogPlaces& places, const v1::GetLogsRequest& request,
                MonotonicTime now, LogsReply reply, Gatherings& gatherings) {
  Candidates candidates(state, events, places);
  if (request.source_case() == v1::GetLogsRequest::kWorker) {
    const std::string& name = request.worker();
    if (state.FindWorker(name) == nullptr && places.Find(name) == nullptr &&
        events.LastOf(name) == nullptr) {
      reply(Unknown(name));
      return;
    }
    candidates.Add(name, 0, -1);
  } else {
    const absl::StatusOr<const Job*> job = state.LookUpJob(request.job());
    if (!job.ok()) {
      reply(job.status());
      return;
    }
    for (const Member& member : (*job)->members) {
      const MemberIdentity& identity = member.identity;
      candidates.Add(identity.worker, identity.incarnation, identity.rank);
    }
  }
  gatherings.Start(std::make_unique<LogGathering>(
                       request, std::move(candidates.sources),
                       std::move(candidates.response), std::move(reply)),
                   std::move(candidates.sessions), now);
}

}  // namespace ringmaster::coordinator
