#include "server/ctl/render/flight_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/table.h"

namespace ringmaster::ctl {
namespace {

std::string StateText(const v1::TraceSpan& span) {
  switch (span.state()) {
    case v1::SPAN_STATE_UNSPECIFIED:
      return "done";
    case v1::SPAN_STATE_QUEUED:
      return "not entered";
    case v1::SPAN_STATE_UNDER_WAY:
      return "under way";
    case v1::SPAN_STATE_BROKEN_OFF:
      return "broken off";
    default:
      return "-";
  }
}

std::string Between(int64_t begin, int64_t end) {
  return HumanDuration(absl::Nanoseconds(end - begin));
}

// "rank 3, 1.2s": whom it waited for longest, and how long.
std::string WaitText(const v1::TraceSpan& span) {
  if (!span.has_awaited_rank()) return "-";
  const std::string rank = absl::StrCat("rank ", span.awaited_rank());
  return span.waited_nanos() > 0
             ? absl::StrCat(rank, ", ", Between(0, span.waited_nanos()))
             : rank;
}

std::vector<std::string> Row(const v1::RankTrace& rank,
                             const v1::TraceSpan& span) {
  const bool has_begun = span.state() != v1::SPAN_STATE_QUEUED;
  const bool has_ended = has_begun && span.state() != v1::SPAN_STATE_UNDER_WAY;
  const int64_t end = has_ended ? span.end_nanos() : rank.taken_nanos();
  return {absl::StrCat(rank.rank()),
          Printable(rank.worker()),
          absl::StrCat(Printable(span.name()), " ", span.sequence(),
                       span.is_on_device() ? " (device)" : ""),
          absl::StrCat(span.step()),
          span.bucket() < 0 ? "-" : absl::StrCat(span.bucket()),
          FormatBytes(span.bytes()),
          StateText(span),
          has_begun ? Between(span.start_nanos(), rank.taken_nanos()) : "-",
          has_begun ? Between(span.start_nanos(), end) : "-",
          WaitText(span)};
}

std::string TitleText(const v1::FlightRecord& record, const Style& style) {
  std::string title = Paint(style, Color::kBold, Printable(record.job_id()));
  if (record.incident() == 0) {
    absl::StrAppend(&title, "  collectives of generation ",
                    record.generation());
  } else {
    absl::StrAppend(&title, "  flight record of incident ", record.incident(),
                    ", which ended generation ", record.generation());
  }
  if (record.has_time()) {
    absl::StrAppend(&title, ", taken ",
                    FormatTime(FromProto(record.time()), style));
  }
  return title;
}

}  // namespace

std::vector<std::string> FlightLines(const v1::FlightRecord& record,
                                     int64_t last, const Style& style) {
  std::vector<std::string> lines = {TitleText(record, style)};
  for (const v1::HoldUp& hold_up : record.hold_ups()) {
    lines.push_back(
        Paint(style, Color::kYellow,
              absl::StrCat("held up:  ", Printable(hold_up.summary()))));
  }
  TextTable table({{"RANK", Align::kRight},
                   {"WORKER"},
                   {"COLLECTIVE"},
                   {"STEP", Align::kRight},
                   {"BUCKET", Align::kRight},
                   {"BYTES", Align::kRight},
                   {"STATE"},
                   {"BEGAN", Align::kRight},
                   {"TOOK", Align::kRight},
                   {"WAITED FOR"}});
  for (const v1::RankTrace& rank : record.ranks()) {
    const int count = rank.spans_size();
    for (int i = static_cast<int>(std::max<int64_t>(0, count - last));
         i < count; ++i) {
      table.AddRow(Row(rank, rank.spans(i)));
    }
  }
  if (table.empty()) {
    lines.push_back("no rank has recorded a collective");
    return lines;
  }
  for (std::string& line : table.Lines(style)) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> MissingRankLines(const v1::FlightRecord& record) {
  std::vector<std::string> lines;
  for (const v1::MissingRank& missing : record.missing()) {
    lines.push_back(absl::StrCat("no record of rank ", missing.rank(),
                                 " (worker ", Printable(missing.worker()),
                                 "): it ", Printable(missing.reason())));
  }
  return lines;
}

}  // namespace ringmaster::ctl
