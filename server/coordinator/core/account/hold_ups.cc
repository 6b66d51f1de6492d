#include "server/coordinator/core/account/hold_ups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/protocol/proto_time.h"
#include "common/text/byte_text.h"

namespace ringmaster::coordinator {
namespace {

// As many are named in a sentence.
constexpr int kMostNamed = 4;

bool IsUnfinished(const v1::TraceSpan& span) {
  return span.state() == v1::SPAN_STATE_UNDER_WAY ||
         span.state() == v1::SPAN_STATE_BROKEN_OFF;
}

// How long the rank of `trace` waited in `span`, which is unfinished.
absl::Duration WaitIn(const v1::TraceSpan& span, const v1::RankTrace& trace) {
  if (span.state() == v1::SPAN_STATE_UNDER_WAY)
    return absl::Nanoseconds(trace.taken_nanos() - span.start_nanos());
  return absl::Nanoseconds(span.has_awaited_rank()
                               ? span.waited_nanos()
                               : span.end_nanos() - span.start_nanos());
}

// A collective that somebody held up, as the ranks that wait tell.
struct Waiting {
  const v1::TraceSpan* span = nullptr;  // of one that waits directly
  bool has_entered = false;  // something of it had come from whom they wait for
  std::set<int> ranks = {};
  absl::Duration waited;
};

// The collectives of one kind of memory.
class Finder {
 public:
  Finder(const v1::FlightRecord& record, const std::set<int>& lost,
         bool is_on_device)
      : record_(record), lost_(lost), is_on_device_(is_on_device) {
    for (const v1::RankTrace& trace : record.ranks()) {
      Standing& standing = standings_[trace.rank()];
      standing.trace = &trace;
      for (const v1::TraceSpan& span : trace.spans()) {
        if (span.is_on_device() == is_on_device &&
            span.state() != v1::SPAN_STATE_QUEUED)
          standing.last = &span;
      }
    }
  }

  // By rank.
  std::map<int, Waiting> Find() {
    for (const auto& [rank, standing] : standings_) {
      if (IsWaiting(standing)) Follow(rank);
    }
    for (const auto& [rank, standing] : standings_) {
      if (IsWaiting(standing) && !standing.last->has_awaited_rank())
        BlameWhoIsBehind(rank, standing);
    }
    return std::move(found_);
  }

 private:
  // Of a rank that has answered.
  struct Standing {
    const v1::RankTrace* trace = nullptr;
    const v1::TraceSpan* last = nullptr;  // that it entered; null: none
  };

  static bool IsWaiting(const Standing& standing) {
    return standing.last != nullptr && IsUnfinished(*standing.last);
  }

  static bool IsBehind(const Standing& standing, const v1::TraceSpan& span) {
    return standing.last == nullptr ||
           standing.last->sequence() < span.sequence();
  }

  // Goes from `rank` to whom it waits for, and so on.
  void Follow(int rank) {
    std::set<int> seen;
    int here = rank;
    while (seen.insert(here).second) {
      const Standing& standing = standings_.at(here);
      if (!standing.last->has_awaited_rank()) {
        if (here != rank && !is_on_device_) NoteStuck(here, rank);
        return;
      }
      const int next = standing.last->awaited_rank();
      const auto answer = standings_.find(next);
      if (answer == standings_.end()) {
        if (IsMissing(next)) Note(next, rank, *standing.last);
        return;
      }
      if (!IsWaiting(answer->second)) {
        if (IsBehind(answer->second, *standing.last))
          Note(next, rank, *standing.last);
        return;
      }
      here = next;
    }
  }

  // `culprit` is in a collective, and waits for nobody.
  void NoteStuck(int culprit, int rank) {
    Note(culprit, rank, *standings_.at(culprit).last);
    found_[culprit].has_entered = true;
  }

  void BlameWhoIsBehind(int rank, const Standing& waiting) {
    bool is_any_behind = false;
    for (const auto& [other, standing] : standings_) {
      if (!IsBehind(standing, *waiting.last)) continue;
      is_any_behind = true;
      Note(other, rank, *waiting.last);
    }
    if (is_any_behind) return;
    for (const int other : lost_) Note(other, rank, *waiting.last);
  }

  // `span` is what `rank`, or somebody it waits for, waits in for `culprit`.
  void Note(int culprit, int rank, const v1::TraceSpan& span) {
    const Standing& waiter = standings_.at(rank);
    Waiting& waiting = found_[culprit];
    if (waiting.span == nullptr || span.sequence() < waiting.span->sequence())
      waiting.span = &span;
    waiting.has_entered |= span.has_awaited_entered();
    waiting.ranks.insert(rank);
    waiting.waited =
        std::max(waiting.waited, WaitIn(*waiter.last, *waiter.trace));
  }

  bool IsMissing(int rank) const {
    return std::any_of(
        record_.missing().begin(), record_.missing().end(),
        [rank](const v1::MissingRank& m) { return m.rank() == rank; });
  }

  const v1::FlightRecord& record_;
  const std::set<int>& lost_;
  const bool is_on_device_;
  std::map<int, Standing> standings_;
  std::map<int, Waiting> found_;
};

std::string WorkerOf(const v1::FlightRecord& record, int rank) {
  for (const v1::RankTrace& trace : record.ranks())
    if (trace.rank() == rank) return trace.worker();
  for (const v1::MissingRank& missing : record.missing())
    if (missing.rank() == rank) return missing.worker();
  return "";
}

bool HasAnswered(const v1::FlightRecord& record, int rank) {
  return std::any_of(
      record.ranks().begin(), record.ranks().end(),
      [rank](const v1::RankTrace& trace) { return trace.rank() == rank; });
}

v1::CollectiveEntry EntryOf(const Waiting& waiting, bool has_answered) {
  if (waiting.has_entered) return v1::COLLECTIVE_ENTRY_ENTERED;
  if (has_answered) return v1::COLLECTIVE_ENTRY_NOT_ENTERED;
  // What has come so far is told of collectives that were broken off.
  return waiting.span->state() == v1::SPAN_STATE_BROKEN_OFF &&
                 waiting.span->has_awaited_rank()
             ? v1::COLLECTIVE_ENTRY_NOT_ENTERED
             : v1::COLLECTIVE_ENTRY_UNSPECIFIED;
}

// "all_reduce 57 of step 12 (bucket 3, 1.20MiB)".
std::string CollectiveText(const v1::HoldUp& hold_up) {
  std::string text =
      absl::StrCat(hold_up.collective(), " ", hold_up.sequence());
  if (hold_up.step() > 0) absl::StrAppend(&text, " of step ", hold_up.step());
  absl::StrAppend(&text, " (");
  if (hold_up.bucket() >= 0)
    absl::StrAppend(&text, "bucket ", hold_up.bucket(), ", ");
  return absl::StrCat(text, FormatBytes(hold_up.bytes()), ")");
}

// "rank 1", "ranks 0, 1, 3", "ranks 0, 1, 3, 4 and 12 more".
std::string RanksText(const v1::HoldUp& hold_up) {
  const int named = std::min(kMostNamed, hold_up.waiting_ranks_size());
  std::string text = absl::StrCat(
      hold_up.waiting_count() == 1 ? "rank " : "ranks ",
      absl::StrJoin(hold_up.waiting_ranks().begin(),
                    hold_up.waiting_ranks().begin() + named, ", "));
  if (hold_up.waiting_count() > named)
    absl::StrAppend(&text, " and ", hold_up.waiting_count() - named, " more");
  return text;
}

std::string DurationText(absl::Duration duration) {
  return duration < absl::Seconds(1)
             ? absl::StrCat(absl::ToInt64Milliseconds(duration), " ms")
             : absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

// Of the past, if an incident has ended the generation.
std::string Sentence(const v1::HoldUp& hold_up, bool is_past) {
  const std::string who =
      absl::StrCat("rank ", hold_up.rank(), " (worker ", hold_up.worker(), ")");
  const std::string what = CollectiveText(hold_up);
  const char* const has = is_past ? "had" : "has";
  std::string text;
  switch (hold_up.entry()) {
    case v1::COLLECTIVE_ENTRY_NOT_ENTERED:
      text = absl::StrCat(who, " ", has, " not entered ", what);
      break;
    case v1::COLLECTIVE_ENTRY_ENTERED:
      text = absl::StrCat(who, " ", has, " entered ", what,
                          " and gone no further");
      break;
    default:
      text = absl::StrCat(who, is_past ? " was" : " is", " waited for in ",
                          what, ", whether it ", has, " entered it or not");
      break;
  }
  absl::StrAppend(&text, ": ", RanksText(hold_up),
                  is_past                        ? " had"
                  : hold_up.waiting_count() == 1 ? " has"
                                                 : " have",
                  " waited for it");
  const absl::Duration waited = FromProto(hold_up.waited());
  if (waited >= absl::Milliseconds(1))
    absl::StrAppend(&text, " for ", DurationText(waited));
  return text;
}

v1::HoldUp HoldUpOf(const v1::FlightRecord& record, int rank,
                    const Waiting& waiting) {
  v1::HoldUp hold_up;
  hold_up.set_rank(rank);
  hold_up.set_worker(WorkerOf(record, rank));
  hold_up.set_entry(EntryOf(waiting, HasAnswered(record, rank)));
  hold_up.set_collective(waiting.span->name());
  hold_up.set_sequence(waiting.span->sequence());
  hold_up.set_step(waiting.span->step());
  hold_up.set_bucket(waiting.span->bucket());
  hold_up.set_bytes(waiting.span->bytes());
  for (const int waiting_rank : waiting.ranks) {
    if (hold_up.waiting_ranks_size() == kMaxWaitingRanks) break;
    hold_up.add_waiting_ranks(waiting_rank);
  }
  hold_up.set_waiting_count(static_cast<int32_t>(waiting.ranks.size()));
  *hold_up.mutable_waited() = ToProto(waiting.waited);
  hold_up.set_summary(Sentence(hold_up, record.incident() > 0));
  return hold_up;
}

}  // namespace

std::vector<v1::HoldUp> FindHoldUps(const v1::FlightRecord& record,
                                    const std::set<int>& lost) {
  std::vector<v1::HoldUp> hold_ups;
  for (const bool is_on_device : {false, true}) {
    for (const auto& [rank, waiting] :
         Finder(record, lost, is_on_device).Find()) {
      if (lost.contains(rank) || waiting.waited >= kLeastHoldUp)
        hold_ups.push_back(HoldUpOf(record, rank, waiting));
    }
  }
  std::stable_sort(
      hold_ups.begin(), hold_ups.end(),
      [&](const v1::HoldUp& a, const v1::HoldUp& b) {
        return std::pair(!lost.contains(a.rank()), -FromProto(a.waited())) <
               std::pair(!lost.contains(b.rank()), -FromProto(b.waited()));
      });
  if (hold_ups.size() > kMaxHoldUps) hold_ups.resize(kMaxHoldUps);
  return hold_ups;
}

}  // namespace ringmaster::coordinator
