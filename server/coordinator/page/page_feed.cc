#include "server/coordinator/page/page_feed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/proto_to_json.h"
#include "common/status/status_macros.h"
#include "server/coordinator/rpc/ask_and_wait.h"
#include "server/coordinator/rpc/queries.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/state_proto.h"

namespace ringmaster::coordinator {
namespace {

// An executor that does not answer within this time is in trouble; the page says so.
constexpr absl::Duration kPatience = absl::Seconds(2);
// A status tells ages, too, so it is taken anew although nothing has changed.
constexpr absl::Duration kMaxStatusAge = absl::Seconds(2);
// A job's text is forgotten when nobody has wanted it for this long.
constexpr absl::Duration kMaxIdle = absl::Seconds(4);

// Events of one look; the next brings the others.
constexpr size_t kMaxLookBytes = size_t{4} << 20;

constexpr JsonOptions kOneLine = {.is_indented = false, .has_defaults = true};

bool IsWorthExplaining(v1::JobState state) {
  return state != v1::JOB_STATE_RUNNING && state < v1::JOB_STATE_SUCCEEDED;
}

struct JobAnswer {
  absl::StatusOr<v1::GetJobResponse> job = absl::UnavailableError("not asked");
  std::optional<v1::ExplainJobResponse> explanation = {};
};

JobAnswer AskForJob(const CoordinatorView& view, const std::string& name) {
  v1::GetJobRequest request;
  request.set_job(name);
  JobAnswer answer = {.job = GetJob(view.state, request)};
  if (!answer.job.ok() || !IsWorthExplaining(answer.job->job().state()))
    return answer;
  v1::ExplainJobRequest explain;
  explain.set_job(answer.job->job().id());
  absl::StatusOr<v1::ExplainJobResponse> explained =
      ExplainJob(view.state, view.config, view.now, view.journal_wait, explain);
  if (explained.ok()) answer.explanation = *std::move(explained);
  return answer;
}

}  // namespace

absl::StatusOr<std::string> PageStatus::Json() const {
  MutexLock lock(mutex_);
  if (json_.empty()) {
    ASSIGN_OR_RETURN(json_, ProtoToJson(status_, kOneLine));
  }
  return json_;
}

absl::StatusOr<std::string> JobText::Get(
    Clock& clock, const std::function<absl::StatusOr<std::string>()>& make) {
  {
    // Whoever makes it has begun before, and gives up first.
    const MonotonicTime deadline = clock.Now() + 2 * kPatience;
    MutexLock lock(mutex_);
    while (is_being_made_) {
      if (!made_.WaitUntil(mutex_, clock, deadline)) {
        return absl::UnavailableError(
            "the coordinator has not answered yet; see its log");
      }
    }
    if (text_.has_value() && clock.Now() - time_ < kLookInterval) return *text_;
    is_being_made_ = true;
  }
  absl::StatusOr<std::string> text = make();
  MutexLock lock(mutex_);
  is_being_made_ = false;
  text_ = text;
  time_ = clock.Now();
  made_.NotifyAll();
  return text;
}

PageFeed::PageFeed(CoordinatorRuntime& runtime, const std::string& history_file,
                   Clock& clock)
    : runtime_(runtime),
      clock_(clock),
      incarnation_(runtime.identity().incarnation),
      newest_{.incarnation = incarnation_},
      history_(history_file.empty() ? History()
                                    : History(ReadHistoryFile(history_file))),
      thread_(clock, kLookInterval, [this] { LookAtRuntime(); }),
      writer_(history_file, clock, [this] { return UnsavedHistory(); }) {}

void PageFeed::LookAtRuntime() {
  int64_t last_event = 0;
  int64_t last_revision = 0;
  bool is_old = false;
  {
    MutexLock lock(mutex_);
    if (is_closed_) return;
    last_event = newest_.event_sequence;
    last_revision = state_revision_;
    is_old = status_ == nullptr || clock_.Now() - status_time_ > kMaxStatusAge;
  }
  absl::StatusOr<Look> look = AskAndWait(
      runtime_, clock_, kPatience,
      [last_event, last_revision, is_old](const CoordinatorView& view) {
        Look seen;
        const auto revision = static_cast<int64_t>(view.state.revision);
        if (is_old || revision != last_revision)
          seen.status = StatusProto(view.Status());
        seen.events = view.events.After(last_event, /*job_id=*/"",
                                        kMaxPageEvents, kMaxLookBytes);
        return seen;
      });
  // One that fails changes nothing: the page shows how old its status is.
  if (look.ok()) Take(*std::move(look));
}

void PageFeed::Take(Look look) {
  MutexLock lock(mutex_);
  if (look.status.has_value()) {
    history_.Take(*look.status);
    state_revision_ = look.status->revision();
    ++newest_.revision;
    status_ = std::make_shared<const PageStatus>(*std::move(look.status));
    status_time_ = clock_.Now();
  }
  for (v1::Event& event : look.events) {
    newest_.event_sequence = event.sequence();
    events_.push_back(std::move(event));
  }
  while (events_.size() > size_t{kMaxPageEvents}) events_.pop_front();
  changed_.NotifyAll();
}

std::optional<v1::PageHistory> PageFeed::UnsavedHistory() {
  MutexLock lock(mutex_);
  if (saved_revision_ == history_.revision()) return std::nullopt;
  saved_revision_ = history_.revision();
  return history_.ToProto();
}

bool PageFeed::HasNews(const StreamPosition& seen) const {
  return status_ != nullptr && seen != newest_;
}

PageNews PageFeed::NewsAfter(const StreamPosition& seen) const {
  PageNews news = {.position = newest_};
  const bool is_same_process = seen.incarnation == incarnation_;
  if (!is_same_process || seen.revision != newest_.revision)
    news.status = status_;
  news.events.set_coordinator_incarnation(incarnation_);
  const int64_t after = is_same_process ? seen.event_sequence : 0;
  const auto first = std::find_if(
      events_.begin(), events_.end(),
      [&](const v1::Event& event) { return event.sequence() > after; });
  for (auto it = first; it != events_.end(); ++it)
    *news.events.add_events() = *it;
  return news;
}

std::optional<PageNews> PageFeed::After(const StreamPosition& seen,
                                        MonotonicTime deadline) {
  MutexLock lock(mutex_);
  while (!is_closed_ && !HasNews(seen)) {
    if (!changed_.WaitUntil(mutex_, clock_, deadline)) break;
  }
  if (is_closed_ || !HasNews(seen)) return std::nullopt;
  return NewsAfter(seen);
}

PageNews PageFeed::Now(const StreamPosition& seen) const {
  MutexLock lock(mutex_);
  return NewsAfter(seen);
}

std::shared_ptr<const PageStatus> PageFeed::Status(MonotonicTime deadline) {
  MutexLock lock(mutex_);
  while (!is_closed_ && status_ == nullptr) {
    if (!changed_.WaitUntil(mutex_, clock_, deadline)) break;
  }
  return is_closed_ ? nullptr : status_;
}

absl::StatusOr<std::string> PageFeed::JobJson(const std::string& job) {
  return TextOf(job)->Get(clock_, [&] { return MakeJobJson(job); });
}

std::shared_ptr<JobText> PageFeed::TextOf(const std::string& job) {
  MutexLock lock(mutex_);
  const MonotonicTime now = clock_.Now();
  std::erase_if(wanted_jobs_, [now](const auto& entry) {
    return now - entry.second.time > kMaxIdle;
  });
  WantedJob& wanted = wanted_jobs_[job];
  wanted.time = now;
  return wanted.text;
}

absl::StatusOr<std::string> PageFeed::MakeJobJson(const std::string& job) {
  ASSIGN_OR_RETURN(const JobAnswer answer,
                   AskAndWait(runtime_, clock_, kPatience,
                              [job](const CoordinatorView& view) {
                                return AskForJob(view, job);
                              }));
  RETURN_IF_ERROR(answer.job.status());
  ASSIGN_OR_RETURN(const std::string job_json,
                   ProtoToJson(answer.job->job(), kOneLine));
  std::string explanation = "null";
  if (answer.explanation.has_value()) {
    ASSIGN_OR_RETURN(explanation, ProtoToJson(*answer.explanation, kOneLine));
  }
  std::optional<JobCurves> curves;
  {
    MutexLock lock(mutex_);
    const JobCurves* const known = history_.Find(answer.job->job().id());
    if (known != nullptr) curves = *known;
  }
  return absl::StrCat(
      "{\"job\":", job_json, ",\"explain\":", explanation,
      ",\"curves\":", CurvesJson(curves.has_value() ? &*curves : nullptr), "}");
}

void PageFeed::Close() {
  MutexLock lock(mutex_);
  is_closed_ = true;
  changed_.NotifyAll();
}

}  // namespace ringmaster::coordinator
