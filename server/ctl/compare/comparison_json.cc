#include "server/ctl/compare/comparison_json.h"

#include <optional>

#include "nlohmann/json.hpp"
#include "server/ctl/compare/findings.h"
#include "server/ctl/compare/memory.h"
#include "server/ctl/compare/prediction.h"
#include "server/ctl/compare/repeats.h"
#include "server/ctl/compare/theory.h"

namespace ringmaster::ctl {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(std::optional<double> value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json ConditionsJson(const Conditions& conditions) {
  Json link = nullptr;
  if (conditions.link_bytes_per_second > 0)
    link = conditions.link_bytes_per_second;
  return {{"time", conditions.time},
          {"machine", conditions.machine},
          {"cores", conditions.cores},
          {"version", conditions.version},
          {"command", conditions.command},
          {"job", conditions.job},
          {"model", conditions.model},
          {"place", conditions.place},
          {"device", conditions.device},
          {"is_on_gpus", conditions.is_on_gpus},
          {"link", conditions.link},
          {"batch", conditions.batch},
          {"link_bytes_per_second", link},
          {"device_memory_bytes", conditions.device_memory_bytes},
          {"is_on_cluster", conditions.is_on_cluster},
          {"repeats", conditions.repeats},
          {"planned_runs", conditions.planned_runs},
          {"planned_memories", conditions.planned_memories},
          {"is_cut_short", conditions.is_cut_short}};
}

// NCCL does not report the bytes of its gradients.
Json RankJson(const RankResult& rank, bool is_by_nccl) {
  const auto bytes = [&](double count) {
    return is_by_nccl ? Json(nullptr) : Json(count);
  };
  return {{"rank", rank.rank},
          {"role", rank.is_server ? "parameter_server" : "worker"},
          {"steps", rank.steps},
          {"step_seconds", rank.step_seconds},
          {"forward_seconds", rank.forward_seconds},
          {"backward_seconds", rank.backward_seconds},
          {"update_seconds", rank.update_seconds},
          {"data_seconds", rank.data_seconds},
          {"exposed_communication_seconds", rank.exposed_seconds},
          {"sent_bytes", bytes(rank.sent_bytes)},
          {"received_bytes", bytes(rank.received_bytes)},
          {"cpu_seconds", rank.cpu_seconds},
          {"peak_resident_bytes", rank.peak_resident_bytes}};
}

Json TheoryJson(const Comparison& medians, const RunResult& run) {
  const std::optional<NodeBytes> bytes = TheoryOf(run);
  return {{"worker_sent_bytes",
           OrNull(bytes ? std::optional(bytes->worker) : std::nullopt)},
          {"busiest_sent_bytes",
           OrNull(bytes ? std::optional(bytes->busiest) : std::nullopt)},
          {"step_seconds", OrNull(PredictedStepSeconds(medians, run))}};
}

// All repeats of a combination; `run` has their medians.
Json CombinationJson(const Comparison& comparison, const Comparison& medians,
                     const RunResult& run) {
  Json json = {{"mode", run.mode.name},
               {"workers", run.workers},
               {"variant", run.variant}};
  const auto add = [&](const char* name, const FigureOfRun& value) {
    const Figure figure = FigureOf(comparison, run, value);
    json["succeeded"] = figure.runs;
    if (figure.runs == 0) return;
    json[name] = {{"median", figure.median},
                  {"least", figure.least},
                  {"most", figure.most}};
  };
  add("step_seconds", [](const RunResult& one) { return one.step_seconds; });
  add("compute_seconds",
      [](const RunResult& one) { return one.compute_seconds; });
  add("transfer_seconds",
      [](const RunResult& one) { return one.transfer_seconds; });
  add("waiting_seconds",
      [](const RunResult& one) { return one.waiting_seconds; });
  add("samples_per_second",
      [](const RunResult& one) { return one.samples_per_second; });
  if (run.is_ok()) json["theory"] = TheoryJson(medians, run);
  return json;
}

Json MemoryJson(const MemoryResult& memory, double device_bytes) {
  Json json = {{"mode", memory.mode.name},
               {"workers", memory.workers},
               {"failure", memory.failure}};
  if (!memory.is_ok()) return json;
  json.update({{"samples_per_worker", memory.few_samples},
               {"more_samples_per_worker", memory.more_samples}});
  const auto largest = LargestBatch(memory, device_bytes);
  json["derived_largest_samples_per_worker"] =
      largest.has_value() ? Json(*largest) : Json(nullptr);
  json["ranks"] = Json::array();
  for (const RankMemory& rank : memory.ranks) {
    json["ranks"].push_back(
        {{"role", rank.is_server ? "parameter_server" : "worker"},
         {"peak_resident_bytes", rank.peak_bytes},
         {"bytes_per_sample", rank.bytes_per_sample},
         {"fixed_bytes", rank.fixed_bytes}});
  }
  return json;
}

Json RunJson(const RunResult& run) {
  Json json = {{"turn", run.turn},
               {"mode", run.mode.name},
               {"workers", run.workers},
               {"servers", run.mode.servers},
               {"variant", run.variant},
               {"compute_is_emulated", run.is_emulated},
               {"is_by_nccl", run.is_by_nccl},
               {"failure", run.failure},
               {"wall_seconds", run.wall_seconds}};
  if (!run.is_ok()) return json;
  json.update({{"steps", run.steps},
               {"global_batch", run.global_batch},
               {"gradient_bytes", run.gradient_bytes},
               {"wire_bytes", run.wire_bytes()},
               {"bucket_bytes", run.bucket_bytes},
               {"ranks_per_host", run.ranks_per_host},
               {"algorithms", run.algorithms},
               {"samples_per_second", run.samples_per_second},
               {"step_seconds", run.step_seconds},
               {"compute_seconds", run.compute_seconds},
               {"transfer_seconds", run.transfer_seconds},
               {"waiting_seconds", run.waiting_seconds},
               {"other_seconds", run.other_seconds},
               {"micro_batches", run.micro_batches},
               {"ready_shares", run.ready_shares},
               {"staleness", run.staleness},
               {"all_reduce_seconds", run.all_reduce_seconds},
               {"final_loss", run.final_loss}});
  json["ranks"] = Json::array();
  for (const RankResult& rank : run.ranks)
    json["ranks"].push_back(RankJson(rank, run.is_by_nccl));
  json["losses"] = Json::array();
  for (const LossPoint& point : run.losses) {
    json["losses"].push_back({{"seconds", point.seconds},
                              {"samples", point.samples},
                              {"loss", point.loss}});
  }
  return json;
}

}  // namespace

std::string ComparisonJson(const Comparison& comparison) {
  Json json;
  json["conditions"] = ConditionsJson(comparison.conditions);
  json["runs"] = Json::array();
  for (const RunResult& run : comparison.runs)
    json["runs"].push_back(RunJson(run));
  const Comparison medians = MediansOf(comparison);
  json["combinations"] = Json::array();
  for (const RunResult& run : medians.runs)
    json["combinations"].push_back(CombinationJson(comparison, medians, run));
  json["findings"] = FindingsOf(comparison);
  json["memory"] = Json::array();
  for (const MemoryResult& memory : comparison.memories) {
    json["memory"].push_back(
        MemoryJson(memory, comparison.conditions.device_memory_bytes));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ringmaster::ctl
