#include "server/ctl/compare/observer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "common/parameter_server/job_staleness.h"
#include "common/protocol/enum_name.h"
#include "common/protocol/proto_time.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::ctl {
namespace {

double Seconds(const google::protobuf::Duration& duration) {
  return absl::ToDoubleSeconds(FromProto(duration));
}

// "ring" of COLLECTIVE_ALGORITHM_RING.
std::string NameOfAlgorithm(v1::CollectiveAlgorithm algorithm) {
  constexpr std::string_view kPrefix = "COLLECTIVE_ALGORITHM_";
  std::string name(EnumName(algorithm));
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  return absl::AsciiStrToLower(name);
}

}  // namespace

RunObserver::RunObserver(RunResult planned)
    : run_(std::move(planned)),
      skipped_steps_(std::max<int64_t>(2, run_.steps / 10)) {}

RunObserver::Sums RunObserver::SumsOf(const v1::RankFigures& figures) {
  Sums sums;
  sums.steps = figures.steps();
  sums.duration = Seconds(figures.duration());
  sums.forward = Seconds(figures.phases().forward());
  sums.backward = Seconds(figures.phases().backward());
  sums.update = Seconds(figures.phases().optimizer());
  sums.data = Seconds(figures.phases().data_wait());
  sums.exposed = Seconds(figures.phases().communication_wait());
  sums.sent = static_cast<double>(figures.sent_bytes());
  sums.received = static_cast<double>(figures.received_bytes());
  sums.cpu = Seconds(figures.cpu_time());
  sums.peak_resident = static_cast<double>(figures.peak_resident_bytes());
  return sums;
}

void RunObserver::TakeLoss(const v1::Job& job, double now) {
  const v1::TrainingFigures& figures = job.figures();
  if (figures.step() <= loss_step_) return;
  loss_step_ = figures.step();
  if (!first_seen_.has_value()) first_seen_ = now;
  run_.losses.push_back(
      {now - *first_seen_,
       static_cast<double>(figures.step() * run_.global_batch),
       figures.loss()});
  run_.final_loss = figures.loss();
  run_.all_reduce_seconds = Seconds(figures.all_reduce_duration());
  run_.algorithms.clear();
  for (const int algorithm : figures.all_reduce_algorithms()) {
    run_.algorithms.push_back(
        NameOfAlgorithm(static_cast<v1::CollectiveAlgorithm>(algorithm)));
  }
}

void RunObserver::TakeMember(const v1::Member& member) {
  if (!member.has_figures()) return;
  if (member.figures().gradient_bytes() > 0) {
    run_.gradient_bytes =
        static_cast<double>(member.figures().gradient_bytes());
  }
  const Sums sums = SumsOf(member.figures());
  Seen& seen = seen_[member.rank()];
  // The last beat before the end may be older than the final figures.
  if (sums.steps < seen.last.steps) return;
  seen.last = sums;
  if (!seen.base.has_value() && sums.steps >= skipped_steps_) seen.base = sums;
}

void RunObserver::Take(const v1::Job& job, double now) {
  if (job.generation() != generation_) {
    // Sums begin anew with each generation.
    generation_ = job.generation();
    seen_.clear();
  }
  TakeLoss(job, now);
  run_.staleness = StalenessOf(job);
  for (const v1::Member& member : job.members()) TakeMember(member);
}

RankResult RunObserver::RankOf(int rank, const Seen& seen) const {
  const bool has_base =
      seen.base.has_value() && seen.base->steps < seen.last.steps;
  const Sums base = has_base ? *seen.base : Sums();
  const Sums& last = seen.last;
  RankResult result;
  result.rank = rank;
  result.is_server = rank >= run_.workers;
  result.steps = last.steps - base.steps;
  result.peak_resident_bytes = last.peak_resident;
  if (result.steps == 0) return result;
  const auto per_step = [&](double Sums::*sum) {
    return (last.*sum - base.*sum) / static_cast<double>(result.steps);
  };
  result.step_seconds = per_step(&Sums::duration);
  result.forward_seconds = per_step(&Sums::forward);
  result.backward_seconds = per_step(&Sums::backward);
  result.update_seconds = per_step(&Sums::update);
  result.data_seconds = per_step(&Sums::data);
  result.exposed_seconds = per_step(&Sums::exposed);
  result.sent_bytes = per_step(&Sums::sent);
  result.received_bytes = per_step(&Sums::received);
  result.cpu_seconds = per_step(&Sums::cpu);
  return result;
}

void RunObserver::SplitStep(RunResult& run) {
  double count = 0;
  double exposed = 0;
  double least_exposed = 0;
  for (const RankResult& rank : run.ranks) {
    if (rank.is_server || rank.steps == 0) continue;
    least_exposed = count == 0 ? rank.exposed_seconds
                               : std::min(least_exposed, rank.exposed_seconds);
    ++count;
    run.step_seconds += rank.step_seconds;
    run.compute_seconds += rank.compute_seconds();
    run.backward_seconds += rank.backward_seconds;
    exposed += rank.exposed_seconds;
  }
  if (count == 0) {
    if (run.failure.empty()) run.failure = "no step was seen";
    return;
  }
  run.step_seconds /= count;
  run.compute_seconds /= count;
  run.backward_seconds /= count;
  run.transfer_seconds = least_exposed;
  run.waiting_seconds = exposed / count - least_exposed;
  run.other_seconds =
      std::max(0.0, run.step_seconds - run.compute_seconds - exposed / count);
  if (run.step_seconds > 0) {
    run.samples_per_second =
        static_cast<double>(run.global_batch) / run.step_seconds;
  }
}

std::string RunObserver::WrongMode(const RunResult& run) {
  if (run.ranks.empty()) return "";
  if (run.mode.kind == Mode::Kind::kServers && !run.ranks.back().is_server)
    return "no parameter server took part";
  if (run.mode.is_parameter_server() && run.all_reduce_seconds > 0)
    return "gradients were all-reduced, and not sent to parameter servers";
  return "";
}

RunResult RunObserver::Finish() const {
  RunResult run = run_;
  for (const auto& [rank, seen] : seen_)
    run.ranks.push_back(RankOf(rank, seen));
  SplitStep(run);
  if (run.failure.empty()) run.failure = WrongMode(run);
  return run;
}

}  // namespace ringmaster::ctl
