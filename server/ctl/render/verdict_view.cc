#include "server/ctl/render/verdict_view.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/names.h"

namespace ringmaster::ctl {
namespace {

std::string Culprit(const v1::Verdict& verdict) {
  if (verdict.worker().empty()) return "nobody could be blamed";
  std::string who = absl::StrCat("worker ", Printable(verdict.worker()));
  if (verdict.rank() >= 0) absl::StrAppend(&who, ", rank ", verdict.rank());
  if (!verdict.host().empty())
    absl::StrAppend(&who, ", host ", Printable(verdict.host()));
  if (verdict.pid() > 0) absl::StrAppend(&who, ", pid ", verdict.pid());
  return who;
}

// Returns true if `text` has all that Culprit says.
bool NamesCulprit(const std::string& text, const v1::Verdict& verdict) {
  const auto has = [&](const char* label, const std::string& value) {
    return value.empty() ||
           absl::StrContains(text, absl::StrCat(label, " ", value));
  };
  return !verdict.worker().empty() &&
         has("worker", Printable(verdict.worker())) &&
         has("rank", verdict.rank() >= 0 ? absl::StrCat(verdict.rank()) : "") &&
         has("host", Printable(verdict.host())) &&
         has("pid", verdict.pid() > 0 ? absl::StrCat(verdict.pid()) : "");
}

std::string Decision(const v1::Verdict& verdict) {
  switch (verdict.decision()) {
    case v1::VERDICT_DECISION_REFORM:
      return verdict.worker().empty() ? "the job goes on"
                                      : "the job goes on without it";
    case v1::VERDICT_DECISION_FAIL_JOB:
      return absl::StrCat("the job ends with exit code ", verdict.exit_code());
    default:
      return "not decided yet";
  }
}

// " (reported 1.5s before the verdict)", if that is known and matters.
std::string AgeText(const v1::Job& job) {
  for (const v1::Incident& incident : job.incidents()) {
    const v1::Verdict& verdict = incident.verdict();
    const bool is_same = verdict.generation() == job.verdict().generation() &&
                         verdict.worker() == job.verdict().worker();
    if (!is_same || !incident.cost().has_detect()) continue;
    return absl::StrCat(" (reported ",
                        HumanDuration(FromProto(incident.cost().detect())),
                        " before the verdict)");
  }
  return "";
}

}  // namespace

std::string IncidentLine(const v1::Verdict& verdict, const Style& style) {
  std::string line = "incident: ";
  // A sentence that names the worker tells the rest of it as well.
  if (!absl::StrContains(verdict.summary(), verdict.worker()))
    absl::StrAppend(&line, Culprit(verdict), ": ");
  absl::StrAppend(&line, Printable(verdict.summary()), "; ", Decision(verdict));
  return Paint(style, Color::kYellow, line);
}

std::vector<std::string> VerdictLines(const v1::Job& job, std::string told,
                                      const Style& style) {
  const v1::Verdict& verdict = job.verdict();
  std::vector<std::string> lines;
  const std::string summary = Printable(verdict.summary());
  if (!absl::StrContains(told, summary)) {
    lines.push_back(
        absl::StrCat("verdict:  ", Paint(style, Color::kRed, summary)));
    absl::StrAppend(&told, "\n", summary);
  }
  if (!NamesCulprit(told, verdict))
    lines.push_back(absl::StrCat("culprit:  ", Culprit(verdict)));
  std::string where = absl::StrCat("generation ", verdict.generation(),
                                   ", step ", verdict.step(), AgeText(job));
  if (verdict.collective_sequence() > 0)
    absl::StrAppend(&where, ", collective ", verdict.collective_sequence());
  lines.push_back(absl::StrCat("where:    ", where));
  if (verdict.has_time()) {
    lines.push_back(absl::StrCat("when:     ",
                                 FormatTime(FromProto(verdict.time()), style)));
  }
  for (const v1::Evidence& evidence : verdict.evidence()) {
    const std::string detail = Printable(evidence.detail());
    std::string line =
        absl::StrCat("evidence: ", NameOf(evidence.kind()), " seen by ",
                     Printable(evidence.observer()));
    if (!absl::StrContains(told, detail)) {
      absl::StrAppend(&line, ": ", detail);
      absl::StrAppend(&told, "\n", detail);
    }
    lines.push_back(std::move(line));
  }
  if (const int more = verdict.evidence_count() - verdict.evidence_size();
      more > 0) {
    lines.push_back(absl::StrCat("evidence: and ", more, " more"));
  }
  lines.push_back(absl::StrCat("decision: ", Decision(verdict)));
  return lines;
}

}  // namespace ringmaster::ctl
