#include "server/coordinator/core/account/verdict.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "common/text/utf8.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

// The values that members are compared by.
using Answer = std::pair<uint64_t, uint64_t>;
using Question = std::function<std::optional<Answer>(const Member&)>;

std::optional<Answer> AnswerOf(const std::optional<PreparedAnswer>& prepared) {
  if (!prepared.has_value()) return std::nullopt;
  return Answer(prepared->plan_hash, prepared->data_fingerprint);
}

std::optional<Answer> PreparedOf(const Member& member) {
  return AnswerOf(member.prepared);
}

std::optional<Answer> FinishedOf(const Member& member) {
  if (!member.finished.has_value()) return std::nullopt;
  return Answer(member.finished->parameters_hash,
                static_cast<uint64_t>(member.finished->step));
}

bool IsCompared(const Member& member) {
  return !member.is_lost && member.identity.role == v1::ROLE_WORKER;
}

Agreement AgreementBy(const Job& job, const Question& answer_of) {
  std::optional<Answer> first;
  bool is_equal = true;
  for (const Member& member : job.members) {
    if (!IsCompared(member)) continue;
    const std::optional<Answer> answer = answer_of(member);
    if (!answer.has_value()) return Agreement::kIncomplete;
    if (!first.has_value()) first = answer;
    is_equal = is_equal && answer == first;
  }
  if (!first.has_value()) return Agreement::kIncomplete;
  return is_equal ? Agreement::kEqual : Agreement::kDifferent;
}

// Two members that answered differently.
struct Difference {
  const Member* odd;
  const Member* other;
  int odd_count;
  int other_count;
};

// Compares the largest group with the smallest; among groups of the same size,
// the one with the lower rank counts as right.
Difference FindDifference(const Job& job, const Question& answer_of) {
  std::map<Answer, std::vector<const Member*>> groups;
  for (const Member& member : job.members) {
    if (IsCompared(member)) groups[*answer_of(member)].push_back(&member);
  }
  std::vector<std::vector<const Member*>> sorted;
  for (auto& [answer, group] : groups) sorted.push_back(std::move(group));
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size()
               ? a.size() > b.size()
               : a.front()->identity.rank < b.front()->identity.rank;
  });
  return {sorted.back().front(), sorted.front().front(),
          static_cast<int>(sorted.back().size()),
          static_cast<int>(sorted.front().size())};
}

v1::Verdict MismatchVerdict(const Job& job, const Difference& difference,
                            std::string_view what, const std::string& odd_value,
                            const std::string& other_value, absl::Time time) {
  const MemberIdentity& odd = difference.odd->identity;
  v1::Verdict verdict = VerdictOnNobody(
      job,
      absl::StrCat(Sv(what), " of ", Describe(odd), " differs from that of ",
                   Describe(difference.other->identity), ": ", odd_value,
                   " against ", other_value, " (", difference.odd_count,
                   " against ", difference.other_count, " of ",
                   MemberCount(job, v1::ROLE_WORKER), " ranks)"),
      time);
  verdict.set_worker(odd.worker);
  verdict.set_rank(odd.rank);
  verdict.set_host(odd.host);
  verdict.set_pid(odd.pid);
  verdict.set_step(difference.odd->step);
  AddEvidence(EvidenceOf(v1::EVIDENCE_KIND_MISMATCH, odd.worker, odd_value),
              verdict);
  AddEvidence(EvidenceOf(v1::EVIDENCE_KIND_MISMATCH,
                         difference.other->identity.worker, other_value),
              verdict);
  verdict.set_decision(v1::VERDICT_DECISION_FAIL_JOB);
  verdict.set_exit_code(static_cast<int>(ExitCode::kPlanMismatch));
  return verdict;
}

std::string_view WhatDiffers(const PreparedAnswer& mine,
                             const PreparedAnswer& theirs) {
  return mine.plan_hash != theirs.plan_hash ? "the plan" : "the data";
}

bool AreAlike(const v1::DataPart& mine, const v1::DataPart& theirs) {
  return mine.files() == theirs.files() &&
         mine.size_bytes() == theirs.size_bytes() &&
         mine.hash() == theirs.hash();
}

// The part `index` of `mine`, which `theirs` does not have alike, and the size of all.
std::string DataText(const v1::DataIdentity& mine,
                     const v1::DataIdentity& theirs, int index) {
  int64_t files = 0;
  int64_t size_bytes = 0;
  for (const v1::DataPart& part : mine.parts()) {
    files += part.files();
    size_bytes += part.size_bytes();
  }
  std::string text = "no such file";
  if (index < mine.parts_size()) {
    const v1::DataPart& part = mine.parts(index);
    text = part.first_file();
    if (part.files() > 1)
      absl::StrAppend(&text, " and the next ", part.files() - 1, " files");
    absl::StrAppend(&text, ", ", part.size_bytes(), " bytes");
    if (index < theirs.parts_size() &&
        part.size_bytes() == theirs.parts(index).size_bytes()) {
      absl::StrAppend(&text, ", hash ",
                      absl::Hex(part.hash(), absl::kZeroPad16));
    }
  }
  absl::StrAppend(&text, " (", size_bytes, " bytes in ", files,
                  files == 1 ? " file)" : " files)");
  return text;
}

// The first part of `mine` that differs from that of `theirs`; empty if no part does, or
// one of them did not tell.
std::string FirstDifference(const v1::DataIdentity& mine,
                            const v1::DataIdentity& theirs) {
  if (mine.parts().empty() || theirs.parts().empty()) return "";
  const int count = std::max(mine.parts_size(), theirs.parts_size());
  for (int i = 0; i < count; ++i) {
    if (i >= mine.parts_size() || i >= theirs.parts_size() ||
        !AreAlike(mine.parts(i), theirs.parts(i))) {
      return DataText(mine, theirs, i);
    }
  }
  return "";
}

std::string PreparedText(const PreparedAnswer& mine,
                         const PreparedAnswer& theirs) {
  if (mine.plan_hash == theirs.plan_hash) {
    std::string text = FirstDifference(mine.data, theirs.data);
    if (!text.empty()) return text;
  }
  if (mine.summary != theirs.summary) {
    return WordsOnlyIn(mine.summary, theirs.summary);
  }
  return absl::StrFormat("plan=%016x data=%016x", mine.plan_hash,
                         mine.data_fingerprint);
}

// The first of the members that prepared rightly: as all did in the generation whose
// state goes on; else as those who hold the state if they are at one, else as more than
// half of all; null if there are no such.
const Member* RightlyPrepared(const Job& job) {
  if (job.agreed.has_value() && job.resume_step > 0) {
    const auto as_before = std::find_if(
        job.members.begin(), job.members.end(), [&](const Member& member) {
          return IsCompared(member) &&
                 PreparedOf(member) == AnswerOf(job.agreed);
        });
    if (as_before != job.members.end()) return &*as_before;
  }
  std::map<Answer, int> counts;
  std::set<Answer> of_holders;
  int all = 0;
  for (const Member& member : job.members) {
    if (!IsCompared(member)) continue;
    ++all;
    ++counts[*PreparedOf(member)];
    if (job.resume_step > 0 && !member.is_newcomer) {
      of_holders.insert(*PreparedOf(member));
    }
  }
  for (const Member& member : job.members) {
    if (!IsCompared(member)) continue;
    const Answer answer = *PreparedOf(member);
    const bool is_right = of_holders.size() == 1 ? of_holders.contains(answer)
                                                 : 2 * counts[answer] > all;
    if (is_right) return &member;
  }
  return nullptr;
}

// "00000000000000ab at step 100".
std::string FinishedText(const FinishedAnswer& finished) {
  return absl::StrFormat("%016x at step %d", finished.parameters_hash,
                         finished.step);
}

// An earlier release kept all its evidence and did not count it.
int EvidenceCount(const v1::Verdict& verdict) {
  return std::max(verdict.evidence_count(), verdict.evidence_size());
}

}  // namespace

v1::Verdict VerdictOnMember(const Job& job, const Member& member,
                            const Worker& worker, std::string_view what,
                            v1::Evidence evidence, absl::Time time) {
  const MemberIdentity& identity = member.identity;
  v1::Verdict verdict = VerdictOnNobody(
      job,
      absl::StrCat(Describe(identity), " ", Sv(what),
                   job.runs_commands ? std::string()
                                     : absl::StrCat(" at step ", member.step),
                   ": ", evidence.detail()),
      time);
  verdict.set_worker(identity.worker);
  verdict.set_rank(identity.rank);
  verdict.set_host(identity.host);
  verdict.set_pid(identity.pid);
  verdict.set_step(member.step);
  verdict.set_collective_sequence(worker.collective_sequence);
  AddEvidence(std::move(evidence), verdict);
  for (const SuspicionReport& report : job.suspicions.reports) {
    if (report.peer_rank != identity.rank) continue;
    AddEvidence(EvidenceOf(v1::EVIDENCE_KIND_PEER_REPORT, report.observer,
                           report.detail),
                verdict);
  }
  return verdict;
}

v1::Evidence EvidenceOf(v1::EvidenceKind kind, std::string_view observer,
                        std::string_view detail) {
  v1::Evidence evidence;
  evidence.set_kind(kind);
  evidence.set_observer(std::string(observer));
  evidence.set_detail(BoundedUtf8(detail, kMaxDetail));
  return evidence;
}

void AddEvidence(v1::Evidence evidence, v1::Verdict& verdict) {
  verdict.set_evidence_count(EvidenceCount(verdict) + 1);
  if (verdict.evidence_size() < kMaxEvidence) {
    *verdict.add_evidence() = std::move(evidence);
  }
}

std::string LinkText(v1::LinkFailure failure, std::string_view detail) {
  const auto text = [&](std::string_view how) {
    return absl::StrCat(Sv(how), ": ", Sv(detail));
  };
  switch (failure) {
    case v1::LINK_FAILURE_NO_ANSWER:
      return text("no answer");
    case v1::LINK_FAILURE_CLOSED:
      return text("closed by the peer");
    case v1::LINK_FAILURE_REFUSED:
      return text("refused");
    default:
      return std::string(detail);
  }
}

v1::Verdict VerdictOnNobody(const Job& job, std::string summary,
                            absl::Time time) {
  v1::Verdict verdict;
  verdict.set_rank(-1);
  verdict.set_decision(v1::VERDICT_DECISION_REFORM);
  verdict.set_generation(job.generation);
  verdict.set_step(job.best_step);
  verdict.set_summary(std::move(summary));
  *verdict.mutable_time() = ToProto(time);
  verdict.set_exit_code(static_cast<int>(ExitCode::kRetryElsewhere));
  return verdict;
}

std::string LinkDetail(const Job& job, int rank, int peer) {
  std::vector<std::string> details;
  for (const SuspicionReport& report : job.suspicions.reports) {
    const bool is_about_it =
        (report.observer_rank == rank && report.peer_rank == peer) ||
        (report.observer_rank == peer && report.peer_rank == rank);
    std::string detail = report.detail;
    if (detail.ends_with('.')) detail.pop_back();
    if (is_about_it &&
        std::find(details.begin(), details.end(), detail) == details.end()) {
      details.push_back(std::move(detail));
    }
  }
  return absl::StrJoin(details, "; ");
}

v1::Verdict VerdictOnLink(const Job& job, const SuspicionReport& first,
                          absl::Time time) {
  v1::Verdict verdict = VerdictOnNobody(
      job,
      absl::StrCat("the link between ",
                   Describe(job.members[first.observer_rank].identity), " and ",
                   Describe(job.members[first.peer_rank].identity),
                   " failed, both are alive: ",
                   LinkDetail(job, first.observer_rank, first.peer_rank)),
      time);
  for (const SuspicionReport& report : job.suspicions.reports) {
    AddEvidence(
        EvidenceOf(v1::EVIDENCE_KIND_PEER_REPORT, report.observer,
                   absl::StrCat("rank ", report.observer_rank, " about rank ",
                                report.peer_rank, ": ", report.detail)),
        verdict);
  }
  return verdict;
}

v1::Verdict VerdictOnStates(const Job& job, const SuspicionReport& report,
                            absl::Time time) {
  v1::Verdict verdict = VerdictOnNobody(
      job,
      absl::StrCat(Describe(job.members[report.observer_rank].identity),
                   " and ", Describe(job.members[report.peer_rank].identity),
                   " held different states: ", report.detail),
      time);
  AddEvidence(
      EvidenceOf(v1::EVIDENCE_KIND_MISMATCH, report.observer, report.detail),
      verdict);
  return verdict;
}

bool IsOwnFailure(const v1::Verdict& verdict) {
  if (verdict.evidence().empty() || verdict.worker().empty()) return false;
  const v1::EvidenceKind kind = verdict.evidence(0).kind();
  return kind == v1::EVIDENCE_KIND_SELF_REPORT ||
         kind == v1::EVIDENCE_KIND_MISMATCH;
}

bool IsPolite(const v1::Verdict& verdict) {
  if (verdict.evidence().empty()) return false;
  const v1::EvidenceKind kind = verdict.evidence(0).kind();
  return kind == v1::EVIDENCE_KIND_JOINED || kind == v1::EVIDENCE_KIND_LEFT;
}

bool IsWanted(const v1::Verdict& verdict) {
  return IsPolite(verdict) && verdict.decision() == v1::VERDICT_DECISION_REFORM;
}

void AddVerdict(const v1::Verdict& later, v1::Verdict& verdict) {
  if (verdict.worker().empty() && !later.worker().empty() &&
      verdict.decision() != v1::VERDICT_DECISION_FAIL_JOB) {
    v1::Verdict merged = later;
    const int count = EvidenceCount(merged) + EvidenceCount(verdict);
    for (const v1::Evidence& evidence : verdict.evidence()) {
      AddEvidence(evidence, merged);
    }
    merged.set_evidence_count(count);
    verdict = std::move(merged);
    return;
  }
  verdict.set_decision(later.decision());
  if (verdict.worker() == later.worker() || later.evidence().empty()) return;
  const v1::Evidence& first = later.evidence(0);
  AddEvidence(EvidenceOf(first.kind(), first.observer(), later.summary()),
              verdict);
}

Agreement PreparedAgreement(const Job& job) {
  const bool is_incomplete = std::any_of(
      job.members.begin(), job.members.end(), [](const Member& member) {
        return !member.is_lost && !member.prepared.has_value();
      });
  if (is_incomplete) return Agreement::kIncomplete;
  return AgreementBy(job, PreparedOf);
}

Agreement FinishedAgreement(const Job& job) {
  return AgreementBy(job, FinishedOf);
}

std::string DifferenceText(const PreparedAnswer& mine,
                           const PreparedAnswer& theirs,
                           std::string_view whose) {
  if (mine.plan_hash == theirs.plan_hash &&
      mine.data_fingerprint == theirs.data_fingerprint) {
    return "";
  }
  return absl::StrCat(Sv(WhatDiffers(mine, theirs)), " differs from that of ",
                      Sv(whose), ": ", PreparedText(mine, theirs), " against ",
                      PreparedText(theirs, mine));
}

std::vector<OddMember> OddlyPrepared(const Job& job) {
  const Member* const right = RightlyPrepared(job);
  std::vector<OddMember> odd;
  if (right == nullptr) return odd;
  for (const Member& member : job.members) {
    if (!IsCompared(member) || PreparedOf(member) == PreparedOf(*right)) {
      continue;
    }
    odd.push_back({member.identity.worker,
                   DifferenceText(*member.prepared, *right->prepared,
                                  Describe(right->identity))});
  }
  return odd;
}

v1::Verdict VerdictOnPrepared(const Job& job, absl::Time time) {
  const Difference difference = FindDifference(job, PreparedOf);
  const PreparedAnswer& odd = *difference.odd->prepared;
  const PreparedAnswer& other = *difference.other->prepared;
  return MismatchVerdict(job, difference, WhatDiffers(odd, other),
                         PreparedText(odd, other), PreparedText(other, odd),
                         time);
}

std::optional<OddMember> OddlyFinished(const Job& job) {
  if (!job.sharding.is_lockstep) return std::nullopt;
  const Difference difference = FindDifference(job, FinishedOf);
  const auto all = std::count_if(job.members.begin(), job.members.end(),
                                 [](const Member& m) { return IsCompared(m); });
  if (2 * difference.other_count <= all) return std::nullopt;
  const FinishedAnswer& odd = *difference.odd->finished;
  const FinishedAnswer& other = *difference.other->finished;
  return OddMember{
      difference.odd->identity.worker,
      absl::StrCat(
          "finished with ", FinishedText(odd), ", but ",
          Describe(difference.other->identity), " and ",
          Counted(static_cast<size_t>(difference.other_count - 1), "other"),
          " with ", FinishedText(other))};
}

v1::Verdict VerdictOnFinished(const Job& job, absl::Time time) {
  const Difference difference = FindDifference(job, FinishedOf);
  const FinishedAnswer& odd = *difference.odd->finished;
  const FinishedAnswer& other = *difference.other->finished;
  return MismatchVerdict(job, difference,
                         odd.step == other.step
                             ? "the hash of the final parameters"
                             : "the last step",
                         FinishedText(odd), FinishedText(other), time);
}

std::string WordsOnlyIn(std::string_view a, std::string_view b) {
  const auto split = [](std::string_view text) {
    return std::vector<std::string>(
        absl::StrSplit(Sv(text), absl::ByAnyChar(" ,;\n"), absl::SkipEmpty()));
  };
  const std::vector<std::string> b_words = split(b);
  const std::set<std::string> others(b_words.begin(), b_words.end());
  std::vector<std::string> only;
  for (const std::string& word : split(a)) {
    if (!others.contains(word)) only.push_back(word);
  }
  return only.empty() ? std::string(a) : absl::StrJoin(only, " ");
}

}  // namespace ringmaster::coordinator
