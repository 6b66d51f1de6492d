#include "server/ctl/render/log_view.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/output_line.h"

namespace ringmaster::ctl {
namespace {

struct Line {
  absl::Time time;
  const v1::ProcessLog* log;
  const v1::LogLine* line;
};

// As in the logs themselves.
std::pair<char, Color> MarkOf(v1::LogSeverity severity) {
  switch (severity) {
    case v1::LOG_SEVERITY_DEBUG:
      return {'D', Color::kDim};
    case v1::LOG_SEVERITY_WARNING:
      return {'W', Color::kYellow};
    case v1::LOG_SEVERITY_ERROR:
      return {'E', Color::kRed};
    default:
      return {'I', Color::kNone};
  }
}

std::string TextOf(const Line& line, const Style& style) {
  if (const auto output = ParseOutputLine(*line.line); output.has_value())
    return absl::StrCat(FormatTime(line.time, style), " ", ToText(*output));
  const auto [letter, color] = MarkOf(line.line->severity());
  std::string text = absl::StrCat(FormatTime(line.time, style), " ",
                                  Paint(style, color, std::string(1, letter)),
                                  " ", Printable(line.line->event()));
  if (!line.line->fields().empty())
    absl::StrAppend(&text, " ", Printable(line.line->fields()));
  return text;
}

std::string CountLines(int64_t count) {
  return absl::StrCat(count, count == 1 ? " line" : " lines");
}

}  // namespace

std::vector<std::string> LogTextLines(const v1::GetLogsResponse& response,
                                      bool has_names, const Style& style) {
  std::vector<Line> lines;
  int width = 0;
  for (const v1::ProcessLog& log : response.logs()) {
    width = std::max(width, DisplayWidth(Printable(log.name())));
    for (const v1::LogLine& line : log.page().lines())
      lines.push_back({FromProto(line.time()), &log, &line});
  }
  // Lines of the same instant stay in their process's order.
  std::stable_sort(
      lines.begin(), lines.end(),
      [](const Line& a, const Line& b) { return a.time < b.time; });
  std::vector<std::string> texts;
  texts.reserve(lines.size());
  for (const Line& line : lines) {
    std::string text;
    if (has_names) {
      const std::string name = Printable(line.log->name());
      text = absl::StrCat(
          Paint(style, Color::kCyan, name),
          std::string(static_cast<size_t>(width - DisplayWidth(name)) + 1,
                      ' '));
    }
    texts.push_back(absl::StrCat(text, TextOf(line, style)));
  }
  return texts;
}

std::string MissingLogText(const v1::MissingLog& missing) {
  std::string text =
      Printable(absl::StrCat(missing.worker(), " ", missing.reason()));
  if (!missing.log_file().empty()) {
    absl::StrAppend(
        &text, "; its log file: ",
        Printable(absl::StrCat(missing.host(), ":", missing.log_file())));
  } else if (!missing.host().empty()) {
    absl::StrAppend(&text, "; it had no --log_file on host ",
                    Printable(missing.host()));
  }
  return text;
}

std::vector<std::string> LogGaps(const v1::GetLogsResponse& response,
                                 const LogPositions& read) {
  std::vector<std::string> gaps;
  for (const v1::ProcessLog& log : response.logs()) {
    const v1::LogPage& page = log.page();
    const std::string name = Printable(log.name());
    if (page.first_held_sequence() == 0) {
      gaps.push_back(
          absl::StrCat(name, " keeps no lines in memory (--log_kept)"));
    }
    if (page.left_out_count() > 0) {
      gaps.push_back(absl::StrCat(CountLines(page.left_out_count()), " of ",
                                  name,
                                  " left out: they do not fit an answer"));
    }
    const auto position = read.find(log.incarnation());
    if (position == read.end()) continue;
    const int64_t next = position->second + 1;
    if (page.first_held_sequence() > next) {
      gaps.push_back(absl::StrCat(CountLines(page.first_held_sequence() - next),
                                  " of ", name,
                                  " gone: it wrote more than it keeps"));
    }
  }
  return gaps;
}

}  // namespace ringmaster::ctl
