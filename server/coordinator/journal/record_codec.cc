#include "server/coordinator/journal/record_codec.h"

#include <xxhash.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace ringmaster::coordinator {
namespace {

using Json = nlohmann::json;

// ---- Values. nlohmann's reading throws on a missing or mistyped field; Decode
// turns that into a Status.

Json ToJson(absl::Time time) { return absl::ToUnixNanos(time); }
absl::Time TimeFrom(const Json& json) {
  return absl::FromUnixNanos(json.get<int64_t>());
}

Json ToJson(absl::Duration duration) {
  return absl::ToInt64Nanoseconds(duration);
}
absl::Duration DurationFrom(const Json& json) {
  return absl::Nanoseconds(json.get<int64_t>());
}

// JSON has no infinities and no NaN, which a diverging loss is.
Json ToJson(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}
double DoubleFrom(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const std::string text = json.get<std::string>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  return std::numeric_limits<double>::quiet_NaN();
}

template <typename Enum>
Enum EnumFrom(const Json& json) {
  return static_cast<Enum>(json.get<int>());
}

Json ToJson(const MemberIdentity& member) {
  Json json{{"rank", member.rank},
            {"local_rank", member.local_rank},
            {"worker", member.worker},
            {"incarnation", member.incarnation},
            {"host", member.host},
            {"host_key", member.host_key},
            {"pid", member.pid},
            {"data_address", member.data_address},
            {"device_kind", static_cast<int>(member.device.kind)},
            {"device_index", member.device.index}};
  if (member.role != Role::kWorker) {
    json["role"] = static_cast<int>(member.role);
  }
  return json;
}

MemberIdentity MemberFrom(const Json& json) {
  MemberIdentity member;
  json.at("rank").get_to(member.rank);
  json.at("local_rank").get_to(member.local_rank);
  json.at("worker").get_to(member.worker);
  json.at("incarnation").get_to(member.incarnation);
  json.at("host").get_to(member.host);
  json.at("host_key").get_to(member.host_key);
  json.at("pid").get_to(member.pid);
  json.at("data_address").get_to(member.data_address);
  member.device.kind = EnumFrom<DeviceKind>(json.at("device_kind"));
  json.at("device_index").get_to(member.device.index);
  if (json.contains("role")) member.role = EnumFrom<Role>(json.at("role"));
  return member;
}

Json ToJson(const Verdict& verdict) {
  Json evidence = Json::array();
  for (const Evidence& item : verdict.evidence) {
    evidence.push_back({{"kind", static_cast<int>(item.kind)},
                        {"observer", item.observer},
                        {"detail", item.detail}});
  }
  return Json{{"worker", verdict.worker},
              {"rank", verdict.rank},
              {"host", verdict.host},
              {"pid", verdict.pid},
              {"generation", verdict.generation},
              {"step", verdict.step},
              {"collective_sequence", verdict.collective_sequence},
              {"summary", verdict.summary},
              {"evidence", std::move(evidence)},
              {"decision", static_cast<int>(verdict.decision)},
              {"time", ToJson(verdict.time)},
              {"exit_code", verdict.exit_code}};
}

Verdict VerdictFrom(const Json& json) {
  Verdict verdict;
  json.at("worker").get_to(verdict.worker);
  json.at("rank").get_to(verdict.rank);
  json.at("host").get_to(verdict.host);
  json.at("pid").get_to(verdict.pid);
  json.at("generation").get_to(verdict.generation);
  json.at("step").get_to(verdict.step);
  json.at("collective_sequence").get_to(verdict.collective_sequence);
  json.at("summary").get_to(verdict.summary);
  for (const Json& item : json.at("evidence")) {
    verdict.evidence.push_back({EnumFrom<EvidenceKind>(item.at("kind")),
                                item.at("observer").get<std::string>(),
                                item.at("detail").get<std::string>()});
  }
  verdict.decision = EnumFrom<VerdictDecision>(json.at("decision"));
  verdict.time = TimeFrom(json.at("time"));
  json.at("exit_code").get_to(verdict.exit_code);
  return verdict;
}

Json ToJson(const PhaseDurations& phases) {
  return Json{{"data_wait", ToJson(phases.data_wait)},
              {"forward", ToJson(phases.forward)},
              {"backward", ToJson(phases.backward)},
              {"communication_wait", ToJson(phases.communication_wait)},
              {"optimizer", ToJson(phases.optimizer)},
              {"snapshot", ToJson(phases.snapshot)}};
}

PhaseDurations PhasesFrom(const Json& json) {
  return PhaseDurations{
      .data_wait = DurationFrom(json.at("data_wait")),
      .forward = DurationFrom(json.at("forward")),
      .backward = DurationFrom(json.at("backward")),
      .communication_wait = DurationFrom(json.at("communication_wait")),
      .optimizer = DurationFrom(json.at("optimizer")),
      .snapshot = DurationFrom(json.at("snapshot"))};
}

Json ToJson(const TextSample& sample) {
  return Json{
      {"step", sample.step}, {"prompt", sample.prompt}, {"text", sample.text}};
}

TextSample SampleFrom(const Json& json) {
  return TextSample{json.at("step").get<int64_t>(),
                    json.at("prompt").get<std::string>(),
                    json.at("text").get<std::string>()};
}

Json ToJson(const TrainingFigures& figures) {
  Json json{
      {"step", figures.step},
      {"total_steps", figures.total_steps},
      {"loss", ToJson(figures.loss)},
      {"samples_per_second", ToJson(figures.samples_per_second)},
      {"step_duration", ToJson(figures.step_duration)},
      {"communication_wait_ratio", ToJson(figures.communication_wait_ratio)},
      {"data_wait_ratio", ToJson(figures.data_wait_ratio)},
      {"evaluation_step", figures.evaluation_step},
      {"remaining_duration", ToJson(figures.remaining_duration)},
      {"payload_sent_bytes", figures.payload_sent_bytes},
      {"gradient_norm", ToJson(figures.gradient_norm)},
      {"targets_per_second", ToJson(figures.targets_per_second)},
      {"model_flops_utilization", ToJson(figures.model_flops_utilization)},
      {"learning_rate", ToJson(figures.learning_rate)},
      {"phases", ToJson(figures.phases)},
      {"payload_theory_bytes", figures.payload_theory_bytes},
      {"checkpoint_step", figures.checkpoint_step},
      {"skipped_samples", figures.skipped_samples}};
  if (figures.evaluation_loss.has_value()) {
    json["evaluation_loss"] = ToJson(*figures.evaluation_loss);
  }
  if (figures.evaluation_accuracy.has_value()) {
    json["evaluation_accuracy"] = ToJson(*figures.evaluation_accuracy);
  }
  return json;
}

// Figures that journals of the first release do not have.
void AddFiguresFrom(const Json& json, TrainingFigures& figures) {
  figures.targets_per_second = DoubleFrom(json.at("targets_per_second"));
  figures.model_flops_utilization =
      DoubleFrom(json.at("model_flops_utilization"));
  figures.learning_rate = DoubleFrom(json.at("learning_rate"));
  figures.phases = PhasesFrom(json.at("phases"));
  json.at("payload_theory_bytes").get_to(figures.payload_theory_bytes);
  if (json.contains("evaluation_accuracy")) {
    figures.evaluation_accuracy = DoubleFrom(json.at("evaluation_accuracy"));
  }
  json.at("checkpoint_step").get_to(figures.checkpoint_step);
  json.at("skipped_samples").get_to(figures.skipped_samples);
}

TrainingFigures FiguresFrom(const Json& json) {
  TrainingFigures figures;
  json.at("step").get_to(figures.step);
  json.at("total_steps").get_to(figures.total_steps);
  figures.loss = DoubleFrom(json.at("loss"));
  figures.samples_per_second = DoubleFrom(json.at("samples_per_second"));
  figures.step_duration = DurationFrom(json.at("step_duration"));
  figures.communication_wait_ratio =
      DoubleFrom(json.at("communication_wait_ratio"));
  figures.data_wait_ratio = DoubleFrom(json.at("data_wait_ratio"));
  if (json.contains("evaluation_loss")) {
    figures.evaluation_loss = DoubleFrom(json.at("evaluation_loss"));
  }
  json.at("evaluation_step").get_to(figures.evaluation_step);
  figures.remaining_duration = DurationFrom(json.at("remaining_duration"));
  json.at("payload_sent_bytes").get_to(figures.payload_sent_bytes);
  figures.gradient_norm = DoubleFrom(json.at("gradient_norm"));
  if (json.contains("phases")) AddFiguresFrom(json, figures);
  return figures;
}

// ---- Records.

// Left out for jobs without shards, as by the releases that had none.
void AddSharding(const Sharding& sharding, Json& json) {
  if (sharding.shards == 0) return;
  json["sharding"] = Json{{"servers", sharding.servers},
                          {"shards", sharding.shards},
                          {"lanes", sharding.lanes},
                          {"replicas", sharding.replicas},
                          {"is_lockstep", sharding.is_lockstep}};
}

Sharding ShardingFrom(const Json& json) {
  Sharding sharding;
  json.at("servers").get_to(sharding.servers);
  json.at("shards").get_to(sharding.shards);
  // Journals of older releases do not have it.
  if (json.contains("lanes")) json.at("lanes").get_to(sharding.lanes);
  json.at("replicas").get_to(sharding.replicas);
  json.at("is_lockstep").get_to(sharding.is_lockstep);
  return sharding;
}

Json ToJson(const JobCreatedRecord& record) {
  Json json{{"number", record.number},
            {"id", record.id},
            {"name", record.name},
            {"request_id", record.request_id},
            {"min_workers", record.min_workers},
            {"max_workers", record.max_workers},
            {"settle", ToJson(record.settle)},
            {"total_steps", record.total_steps},
            {"time", ToJson(record.time)}};
  AddSharding(record.sharding, json);
  return json;
}

JournalRecord JobCreatedFrom(const Json& json, const std::string& spec) {
  JobCreatedRecord record;
  json.at("number").get_to(record.number);
  json.at("id").get_to(record.id);
  json.at("name").get_to(record.name);
  record.spec = spec;
  json.at("request_id").get_to(record.request_id);
  json.at("min_workers").get_to(record.min_workers);
  json.at("max_workers").get_to(record.max_workers);
  record.settle = DurationFrom(json.at("settle"));
  json.at("total_steps").get_to(record.total_steps);
  record.time = TimeFrom(json.at("time"));
  if (json.contains("sharding")) {
    record.sharding = ShardingFrom(json.at("sharding"));
  }
  return record;
}

Json ToJson(const GenerationFormedRecord& record) {
  Json members = Json::array();
  for (const MemberIdentity& member : record.members) {
    members.push_back(ToJson(member));
  }
  Json json{
      {"generation", record.generation}, {"job_id", record.job_id},
      {"members", std::move(members)},   {"resume_step", record.resume_step},
      {"time", ToJson(record.time)},     {"is_rollback", record.is_rollback}};
  for (const ShardPlacement& shard : record.placements) {
    json["placements"].push_back(
        {shard.primary_rank, shard.backup_rank, shard.source_rank});
  }
  return json;
}

JournalRecord GenerationFormedFrom(const Json& json) {
  GenerationFormedRecord record;
  json.at("generation").get_to(record.generation);
  json.at("job_id").get_to(record.job_id);
  for (const Json& member : json.at("members")) {
    record.members.push_back(MemberFrom(member));
  }
  json.at("resume_step").get_to(record.resume_step);
  record.time = TimeFrom(json.at("time"));
  // Journals of the first releases do not have it.
  if (json.contains("is_rollback")) {
    json.at("is_rollback").get_to(record.is_rollback);
  }
  // Those of jobs without shards, and of the releases before, neither.
  if (json.contains("placements")) {
    for (const Json& shard : json.at("placements")) {
      record.placements.push_back({.primary_rank = shard.at(0).get<int>(),
                                   .backup_rank = shard.at(1).get<int>(),
                                   .source_rank = shard.at(2).get<int>()});
    }
  }
  return record;
}

Json ToJson(const CancelRequestedRecord& record) {
  return Json{{"job_id", record.job_id},
              {"reason", record.reason},
              {"time", ToJson(record.time)}};
}

JournalRecord CancelRequestedFrom(const Json& json) {
  return CancelRequestedRecord{json.at("job_id").get<std::string>(),
                               json.at("reason").get<std::string>(),
                               TimeFrom(json.at("time"))};
}

Json ToJson(const VerdictReachedRecord& record) {
  return Json{{"job_id", record.job_id}, {"verdict", ToJson(record.verdict)}};
}

JournalRecord VerdictReachedFrom(const Json& json) {
  return VerdictReachedRecord{json.at("job_id").get<std::string>(),
                              VerdictFrom(json.at("verdict"))};
}

Json ToJson(const JobEndedRecord& record) {
  Json json{{"job_id", record.job_id},
            {"state", static_cast<int>(record.state)},
            {"exit_code", record.exit_code},
            {"message", record.message},
            {"figures", ToJson(record.figures)},
            {"time", ToJson(record.time)}};
  if (record.parameters_hash.has_value()) {
    json["parameters_hash"] = *record.parameters_hash;
  }
  if (record.verdict.has_value()) json["verdict"] = ToJson(*record.verdict);
  if (record.sample.has_value()) json["sample"] = ToJson(*record.sample);
  if (!record.bench.empty()) {
    std::string text;
    absl::Base64Escape(record.bench, &text);
    json["bench"] = std::move(text);
  }
  return json;
}

JournalRecord JobEndedFrom(const Json& json) {
  JobEndedRecord record;
  json.at("job_id").get_to(record.job_id);
  record.state = EnumFrom<JobState>(json.at("state"));
  json.at("exit_code").get_to(record.exit_code);
  json.at("message").get_to(record.message);
  if (json.contains("parameters_hash")) {
    record.parameters_hash = json.at("parameters_hash").get<uint64_t>();
  }
  if (json.contains("verdict")) {
    record.verdict = VerdictFrom(json.at("verdict"));
  }
  record.figures = FiguresFrom(json.at("figures"));
  if (json.contains("sample")) record.sample = SampleFrom(json.at("sample"));
  if (json.contains("bench")) {
    // What is no base64 leaves nothing, which harms nobody.
    (void)absl::Base64Unescape(json.at("bench").get<std::string>(),
                               &record.bench);
  }
  record.time = TimeFrom(json.at("time"));
  return record;
}

Json ToJson(const HostQuarantinedRecord& record) {
  return Json{{"job_id", record.job_id},
              {"host_key", record.host_key},
              {"host", record.host},
              {"reason", record.reason},
              {"end_time", ToJson(record.end_time)},
              {"time", ToJson(record.time)}};
}

JournalRecord HostQuarantinedFrom(const Json& json) {
  return HostQuarantinedRecord{json.at("job_id").get<std::string>(),
                               json.at("host_key").get<std::string>(),
                               json.at("host").get<std::string>(),
                               json.at("reason").get<std::string>(),
                               TimeFrom(json.at("end_time")),
                               TimeFrom(json.at("time"))};
}

// Throws what nlohmann throws.
std::optional<JournalRecord> RecordFrom(const Row& row) {
  const Json json = Json::parse(row.body);
  if (row.type == "job_created") return JobCreatedFrom(json, row.spec);
  if (row.type == "generation_formed") return GenerationFormedFrom(json);
  if (row.type == "cancel_requested") return CancelRequestedFrom(json);
  if (row.type == "verdict_reached") return VerdictReachedFrom(json);
  if (row.type == "job_ended") return JobEndedFrom(json);
  if (row.type == "host_quarantined") return HostQuarantinedFrom(json);
  return std::nullopt;
}

}  // namespace

int64_t ChecksumOf(const Row& row) {
  const std::string all =
      absl::StrCat(row.type, "\n", row.job_id, "\n", row.generation, "\n",
                   row.body, "\n", row.spec);
  return static_cast<int64_t>(XXH64(all.data(), all.size(), 0));
}

Row Encode(const JournalRecord& record) {
  Row row;
  row.type = std::string(TypeOf(record));
  row.job_id = JobIdOf(record);
  if (const auto* const formed = std::get_if<GenerationFormedRecord>(&record)) {
    row.generation = formed->generation;
  }
  if (const auto* const created = std::get_if<JobCreatedRecord>(&record)) {
    row.spec = created->spec;
  }
  const Json json = std::visit([](const auto& r) { return ToJson(r); }, record);
  // A text that is not UTF-8 must not keep a decision out of the journal.
  row.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  row.checksum = ChecksumOf(row);
  return row;
}

absl::StatusOr<JournalRecord> Decode(const Row& row) {
  if (row.checksum != ChecksumOf(row)) {
    return absl::DataLossError("its checksum does not match");
  }
  try {
    std::optional<JournalRecord> record = RecordFrom(row);
    if (record.has_value()) return *std::move(record);
  } catch (const Json::exception& error) {
    return absl::DataLossError(
        absl::StrCat("its body is malformed: ", error.what()));
  }
  return absl::DataLossError(
      absl::StrCat("its type \"", row.type, "\" is unknown"));
}

}  // namespace ringmaster::coordinator
