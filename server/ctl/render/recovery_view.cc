#include "server/ctl/render/recovery_view.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/table.h"

namespace ringmaster::ctl {
namespace {

constexpr char kHeldUp[] = "held up:  ";

// Names of parts, and how long each took.
using Parts =
    std::vector<std::pair<std::string_view, google::protobuf::Duration>>;

// "detect 300ms, halt 11ms".
std::string PartsText(const Parts& parts) {
  std::vector<std::string> texts;
  texts.reserve(parts.size());
  for (const auto& [name, duration] : parts) {
    texts.push_back(absl::StrCat(std::string(name), " ",
                                 HumanDuration(FromProto(duration))));
  }
  return absl::StrJoin(texts, ", ");
}

Parts PartsOf(const v1::RecoveryCost& cost) {
  Parts parts;
  if (cost.has_detect()) parts.emplace_back("detect", cost.detect());
  if (cost.has_halt()) parts.emplace_back("halt", cost.halt());
  if (cost.has_assign()) parts.emplace_back("assign", cost.assign());
  if (cost.has_connect()) parts.emplace_back("connect", cost.connect());
  if (cost.has_first_step()) {
    parts.emplace_back("first step", cost.first_step());
  }
  return parts;
}

Parts PartsOf(const v1::Goodput& goodput) {
  Parts parts = {
      {"waiting", goodput.waiting()},       {"starting", goodput.starting()},
      {"training", goodput.training()},     {"detecting", goodput.detecting()},
      {"recovering", goodput.recovering()}, {"repeating", goodput.repeating()},
      {"stopping", goodput.stopping()}};
  std::erase_if(parts, [](const auto& part) {
    return FromProto(part.second) <= absl::ZeroDuration();
  });
  return parts;
}

// A label, and `text` beside it in as many lines as it takes.
void AppendWrapped(std::vector<std::string>& lines, std::string_view label,
                   std::string_view text, const Style& style) {
  const int indent = static_cast<int>(label.size());
  bool is_first = true;
  for (const std::string& piece :
       WrapLines(Printable(text), std::max(20, style.width - indent))) {
    lines.push_back(absl::StrCat(
        is_first ? std::string(label) : std::string(label.size(), ' '), piece));
    is_first = false;
  }
}

std::vector<std::string> BlockingTable(
    const v1::ExplainJobResponse& explanation, const Style& style) {
  TextTable table({{"RANK", Align::kRight},
                   {"WORKER"},
                   {"HOST"},
                   {"LAST HEARD", Align::kRight},
                   {"STEP", Align::kRight},
                   {"PHASE"},
                   {"REASON"}});
  for (const v1::BlockingWorker& worker : explanation.blocking_workers()) {
    const bool is_member = worker.rank() >= 0;
    table.AddRow({is_member ? absl::StrCat(worker.rank()) : "-",
                  MemberName(worker.worker(), worker.role()),
                  Printable(worker.host()),
                  worker.has_last_heard_age()
                      ? HumanDuration(FromProto(worker.last_heard_age()))
                      : "-",
                  is_member ? absl::StrCat(worker.step()) : "-",
                  NameOf(worker.phase()), Printable(worker.reason())});
  }
  if (table.empty()) return {};
  return table.Lines(style);
}

// Without its label.
std::string RecoveryText(const v1::Incident& incident) {
  std::string text = HumanDuration(FromProto(incident.cost().total()));
  if (!incident.is_over()) absl::StrAppend(&text, " so far");
  const std::string parts = PartsText(PartsOf(incident.cost()));
  if (!parts.empty()) absl::StrAppend(&text, " (", parts, ")");
  if (incident.world_size_after() > 0) {
    absl::StrAppend(&text, ", ", incident.world_size_before(), " -> ",
                    incident.world_size_after(), " ranks, after step ",
                    incident.resume_step());
  }
  if (incident.lost_steps() > 0) {
    absl::StrAppend(&text, ", ", incident.lost_steps(), " steps lost");
  }
  return absl::StrCat(text, "; interruption ", incident.number(),
                      incident.is_wanted() ? ", wanted" : "");
}

std::string GoodputText(const v1::Goodput& goodput) {
  std::string text = absl::StrCat(FormatPercent(goodput.ratio()),
                                  " of the time since the first step");
  const std::string parts = PartsText(PartsOf(goodput));
  if (!parts.empty()) absl::StrAppend(&text, " (", parts, ")");
  return absl::StrCat(
      text, "; ", goodput.incidents(),
      goodput.incidents() == 1 ? " interruption" : " interruptions");
}

}  // namespace

std::string RecoveryLine(const v1::Incident& incident) {
  return absl::StrCat("recovery: ", RecoveryText(incident));
}

std::vector<std::string> HoldUpLines(const v1::Incident& incident) {
  std::vector<std::string> lines;
  for (const v1::HoldUp& hold_up : incident.hold_ups())
    lines.push_back(absl::StrCat(kHeldUp, Printable(hold_up.summary())));
  return lines;
}

std::string GoodputLine(const v1::Goodput& goodput) {
  return absl::StrCat("goodput:  ", GoodputText(goodput));
}

std::vector<std::string> ExplainLines(const v1::ExplainJobResponse& explanation,
                                      const Style& style) {
  std::vector<std::string> lines = {absl::StrCat(
      Paint(style, Color::kBold, Printable(explanation.job_id())), "  ",
      Paint(style, ColorOf(explanation.state()), NameOf(explanation.state())))};
  AppendWrapped(lines, "why:      ", explanation.summary(), style);
  for (const std::string& reason : explanation.reasons()) {
    AppendWrapped(lines, "          ", reason, style);
  }
  if (!explanation.what_unblocks().empty()) {
    AppendWrapped(lines, "unblocks: ", explanation.what_unblocks(), style);
  }
  if (explanation.blocking_workers_size() > 0) {
    lines.emplace_back();
    for (std::string& line : BlockingTable(explanation, style)) {
      lines.push_back(std::move(line));
    }
    lines.emplace_back();
  }
  if (explanation.has_last_incident()) {
    const v1::Incident& incident = explanation.last_incident();
    AppendWrapped(lines, "incident: ", incident.verdict().summary(), style);
    for (const v1::HoldUp& hold_up : incident.hold_ups())
      AppendWrapped(lines, kHeldUp, hold_up.summary(), style);
    AppendWrapped(lines, "recovery: ", RecoveryText(incident), style);
  }
  if (explanation.has_goodput()) {
    AppendWrapped(lines, "goodput:  ", GoodputText(explanation.goodput()),
                  style);
  }
  return lines;
}

}  // namespace ringmaster::ctl
