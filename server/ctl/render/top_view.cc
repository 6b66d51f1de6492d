#include "server/ctl/render/top_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/job_table.h"
#include "server/ctl/render/listing.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/table.h"

namespace ringmaster::ctl {
namespace {

StepTime TimeOf(const v1::Member& member) {
  return {FromProto(member.figures().duration()),
          FromProto(member.figures().phases().communication_wait())};
}

bool IsActive(const v1::Job& job) {
  return !HasEnded(job.state()) && job.state() != v1::JOB_STATE_QUEUED;
}

// Active jobs in front; otherwise as they were.
google::protobuf::RepeatedPtrField<v1::Job> ActiveFirst(
    const v1::Status& status) {
  google::protobuf::RepeatedPtrField<v1::Job> jobs = status.jobs();
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const v1::Job& a, const v1::Job& b) {
                     return IsActive(a) > IsActive(b);
                   });
  return jobs;
}

std::string ShareCell(double share) {
  return share < 0 ? "-" : FormatPercent(share);
}

std::vector<std::string> RankTable(const std::vector<RankLoad>& loads,
                                   const Style& style) {
  if (loads.empty()) return {};
  TextTable table({{"JOB"},
                   {"RANK", Align::kRight},
                   {"WORKER"},
                   {"HOST"},
                   {"STEP", Align::kRight},
                   {"PHASE"},
                   {"HOLDS UP", Align::kRight},
                   {"WAITS", Align::kRight},
                   {"CPU", Align::kRight},
                   {"MEMORY", Align::kRight},
                   {"AGE", Align::kRight}});
  for (const RankLoad& load : loads) {
    const v1::Member& member = *load.member;
    const v1::RankFigures& figures = member.figures();
    table.AddRow(
        {Printable(load.job->id()), absl::StrCat(member.rank()),
         MemberName(member.worker(), member.role()), Printable(member.host()),
         // A command's steps are its own business.
         load.job->spec().has_external() ? "-" : absl::StrCat(member.step()),
         NameOf(member.phase()), ShareCell(load.holds_up_ratio),
         ShareCell(load.wait_ratio),
         HumanDuration(FromProto(figures.cpu_time())),
         FormatBytes(figures.peak_resident_bytes()),
         member.has_last_heard_age()
             ? HumanDuration(FromProto(member.last_heard_age()))
             : "-"});
  }
  return table.Lines(style);
}

// `lines`, or as many as `room` has, of which the last counts the others.
void AppendWithin(std::vector<std::string> lines, int room, const char* things,
                  std::vector<std::string>& screen) {
  const int count = static_cast<int>(lines.size());
  if (count > room) {
    // The titles need a row, and the row that counts another.
    if (room < 3) return;
    lines.resize(static_cast<size_t>(room - 1));
    lines.push_back(
        absl::StrCat("... and ", count - room + 1, " more ", things));
  }
  for (std::string& line : lines) screen.push_back(std::move(line));
}

}  // namespace

RankTimes::Key RankTimes::KeyOf(const v1::Job& job, const v1::Member& member) {
  return {job.id(), job.generation(), member.rank()};
}

RankTimes::Times RankTimes::Of(const v1::Job& job,
                               const v1::Member& member) const {
  const auto found = times_.find(KeyOf(job, member));
  return found == times_.end() ? Times{.last = TimeOf(member)} : found->second;
}

void RankTimes::Add(const v1::Status& status) {
  std::map<Key, Times> times;
  for (const v1::Job& job : status.jobs()) {
    for (const v1::Member& member : job.members()) {
      const StepTime now = TimeOf(member);
      Times rank = Of(job, member);
      // Figures that fell are those of a rank that began anew.
      if (now.whole < rank.last.whole) rank = {};
      if (now.whole > rank.last.whole) rank.earlier = rank.last;
      rank.last = now;
      times[KeyOf(job, member)] = rank;
    }
  }
  times_ = std::move(times);
}

std::vector<RankLoad> RankLoads(const v1::Status& now, const RankTimes& times) {
  std::vector<RankLoad> loads;
  for (const v1::Job& job : now.jobs()) {
    if (!IsActive(job)) continue;
    const size_t first = loads.size();
    double sum = 0;
    int known = 0;
    // Shares of the last steps are not compared with those of all steps.
    const bool is_since_earlier =
        std::any_of(job.members().begin(), job.members().end(),
                    [&](const v1::Member& member) {
                      return times.Of(job, member).earlier.has_value();
                    });
    for (const v1::Member& member : job.members()) {
      RankLoad load{.job = &job, .member = &member};
      const RankTimes::Times rank = times.Of(job, member);
      StepTime time = rank.last;
      if (rank.earlier.has_value()) {
        time.whole -= rank.earlier->whole;
        time.waiting -= rank.earlier->waiting;
      }
      if (rank.earlier.has_value() == is_since_earlier &&
          time.whole > absl::ZeroDuration()) {
        load.wait_ratio =
            std::clamp(absl::FDivDuration(time.waiting, time.whole), 0.0, 1.0);
        sum += load.wait_ratio;
        ++known;
      }
      loads.push_back(load);
    }
    for (size_t i = first; i < loads.size(); ++i) {
      RankLoad& load = loads[i];
      if (load.wait_ratio < 0 || known < 2) continue;
      const double others = (sum - load.wait_ratio) / (known - 1);
      load.holds_up_ratio = std::max(0.0, others - load.wait_ratio);
    }
  }
  std::stable_sort(loads.begin(), loads.end(),
                   [](const RankLoad& a, const RankLoad& b) {
                     return a.holds_up_ratio > b.holds_up_ratio;
                   });
  return loads;
}

std::vector<std::string> TopLines(const v1::Status& status,
                                  const RankTimes& times,
                                  const std::string& notice, absl::Time now,
                                  const Style& style) {
  const int height = std::max(1, style.height - 1);
  std::vector<std::string> lines = PoolLines(status, now, style);
  if (!notice.empty())
    lines.push_back(Paint(style, Color::kRed, Printable(notice)));
  std::vector<std::string> ranks = RankTable(RankLoads(status, times), style);
  lines.emplace_back();
  if (status.jobs().empty()) {
    lines.emplace_back("no jobs; submit one with: ringctl submit JOB.yaml");
  } else {
    // Ranks get what jobs leave, and half of the room in any case.
    const int room = height - static_cast<int>(lines.size());
    const int for_ranks =
        std::min(static_cast<int>(ranks.size()) + 1, room / 2);
    AppendWithin(JobTable(ActiveFirst(status), /*is_wide=*/false, now, style),
                 room - for_ranks, "jobs", lines);
  }
  if (!ranks.empty()) {
    lines.emplace_back();
    AppendWithin(std::move(ranks), height - static_cast<int>(lines.size()),
                 "ranks", lines);
  }
  if (static_cast<int>(lines.size()) > height)
    lines.resize(static_cast<size_t>(height));
  for (std::string& line : lines) line = Fit(style, line, style.width);
  return lines;
}

}  // namespace ringmaster::ctl
