#include "server/coordinator/journal/json_record.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/protocol/no_figures.h"
#include "common/protocol/proto_time.h"
#include "common/text/utf8.h"
#include "nlohmann/json.hpp"

namespace ringmaster::coordinator {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxCitedBytes = 200;

// ---- Values. nlohmann's reading throws on a missing or mistyped field;
// RecordFromJson turns that into a Status.

absl::Time TimeFrom(const Json& json) {
  return absl::FromUnixNanos(json.get<int64_t>());
}

absl::Duration DurationFrom(const Json& json) {
  return absl::Nanoseconds(json.get<int64_t>());
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
  member.device.kind = EnumFrom<v1::DeviceKind>(json.at("device_kind"));
  json.at("device_index").get_to(member.device.index);
  if (json.contains("role")) member.role = EnumFrom<v1::Role>(json.at("role"));
  return member;
}

v1::Verdict VerdictFrom(const Json& json) {
  v1::Verdict verdict;
  verdict.set_worker(json.at("worker").get<std::string>());
  verdict.set_rank(json.at("rank").get<int>());
  verdict.set_host(json.at("host").get<std::string>());
  verdict.set_pid(json.at("pid").get<int64_t>());
  verdict.set_generation(json.at("generation").get<int64_t>());
  verdict.set_step(json.at("step").get<int64_t>());
  verdict.set_collective_sequence(
      json.at("collective_sequence").get<int64_t>());
  verdict.set_summary(json.at("summary").get<std::string>());
  for (const Json& item : json.at("evidence")) {
    v1::Evidence& evidence = *verdict.add_evidence();
    evidence.set_kind(EnumFrom<v1::EvidenceKind>(item.at("kind")));
    evidence.set_observer(item.at("observer").get<std::string>());
    evidence.set_detail(item.at("detail").get<std::string>());
  }
  verdict.set_decision(EnumFrom<v1::VerdictDecision>(json.at("decision")));
  *verdict.mutable_time() = ToProto(TimeFrom(json.at("time")));
  verdict.set_exit_code(json.at("exit_code").get<int>());
  return verdict;
}

google::protobuf::Duration DurationProtoFrom(const Json& json) {
  return ToProto(DurationFrom(json));
}

v1::PhaseDurations PhasesFrom(const Json& json) {
  v1::PhaseDurations phases;
  *phases.mutable_data_wait() = DurationProtoFrom(json.at("data_wait"));
  *phases.mutable_forward() = DurationProtoFrom(json.at("forward"));
  *phases.mutable_backward() = DurationProtoFrom(json.at("backward"));
  *phases.mutable_communication_wait() =
      DurationProtoFrom(json.at("communication_wait"));
  *phases.mutable_optimizer() = DurationProtoFrom(json.at("optimizer"));
  *phases.mutable_snapshot() = DurationProtoFrom(json.at("snapshot"));
  return phases;
}

v1::TextSample SampleFrom(const Json& json) {
  v1::TextSample sample;
  sample.set_step(json.at("step").get<int64_t>());
  sample.set_prompt(json.at("prompt").get<std::string>());
  sample.set_text(json.at("text").get<std::string>());
  return sample;
}

// Figures that journals of the first releases do not have.
void AddFiguresFrom(const Json& json, v1::TrainingFigures& figures) {
  figures.set_targets_per_second(DoubleFrom(json.at("targets_per_second")));
  figures.set_model_flops_utilization(
      DoubleFrom(json.at("model_flops_utilization")));
  figures.set_learning_rate(DoubleFrom(json.at("learning_rate")));
  *figures.mutable_phases() = PhasesFrom(json.at("phases"));
  figures.set_payload_theory_bytes(
      json.at("payload_theory_bytes").get<int64_t>());
  if (json.contains("evaluation_accuracy")) {
    figures.set_evaluation_accuracy(DoubleFrom(json.at("evaluation_accuracy")));
  }
  figures.set_checkpoint_step(json.at("checkpoint_step").get<int64_t>());
  figures.set_skipped_samples(json.at("skipped_samples").get<int64_t>());
}

v1::TrainingFigures FiguresFrom(const Json& json) {
  v1::TrainingFigures figures = NoFigures();
  figures.set_step(json.at("step").get<int64_t>());
  figures.set_total_steps(json.at("total_steps").get<int64_t>());
  figures.set_loss(DoubleFrom(json.at("loss")));
  figures.set_samples_per_second(DoubleFrom(json.at("samples_per_second")));
  *figures.mutable_step_duration() =
      DurationProtoFrom(json.at("step_duration"));
  figures.set_communication_wait_ratio(
      DoubleFrom(json.at("communication_wait_ratio")));
  figures.set_data_wait_ratio(DoubleFrom(json.at("data_wait_ratio")));
  if (json.contains("evaluation_loss")) {
    figures.set_evaluation_loss(DoubleFrom(json.at("evaluation_loss")));
  }
  figures.set_evaluation_step(json.at("evaluation_step").get<int64_t>());
  *figures.mutable_remaining_duration() =
      DurationProtoFrom(json.at("remaining_duration"));
  figures.set_payload_sent_bytes(json.at("payload_sent_bytes").get<int64_t>());
  figures.set_gradient_norm(DoubleFrom(json.at("gradient_norm")));
  if (json.contains("phases")) AddFiguresFrom(json, figures);
  return figures;
}

// ---- Records.

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

JournalRecord CancelRequestedFrom(const Json& json) {
  return CancelRequestedRecord{json.at("job_id").get<std::string>(),
                               json.at("reason").get<std::string>(),
                               TimeFrom(json.at("time"))};
}

JournalRecord VerdictReachedFrom(const Json& json) {
  return VerdictReachedRecord{json.at("job_id").get<std::string>(),
                              VerdictFrom(json.at("verdict"))};
}

JournalRecord JobEndedFrom(const Json& json) {
  JobEndedRecord record;
  json.at("job_id").get_to(record.job_id);
  record.state = EnumFrom<v1::JobState>(json.at("state"));
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
    std::string bytes;
    // Figures that cannot be parsed are left out, which harms nobody.
    v1::BenchFigures bench;
    if (absl::Base64Unescape(json.at("bench").get<std::string>(), &bytes) &&
        bench.ParseFromString(bytes)) {
      record.bench = std::move(bench);
    }
  }
  record.time = TimeFrom(json.at("time"));
  return record;
}

JournalRecord HostQuarantinedFrom(const Json& json) {
  return HostQuarantinedRecord{json.at("job_id").get<std::string>(),
                               json.at("host_key").get<std::string>(),
                               json.at("host").get<std::string>(),
                               json.at("reason").get<std::string>(),
                               TimeFrom(json.at("end_time")),
                               TimeFrom(json.at("time"))};
}

}  // namespace

absl::StatusOr<JournalRecord> RecordFromJson(const std::string& type,
                                             const std::string& body,
                                             const std::string& spec) {
  try {
    const Json json = Json::parse(body);
    if (type == "job_created") return JobCreatedFrom(json, spec);
    if (type == "generation_formed") return GenerationFormedFrom(json);
    if (type == "cancel_requested") return CancelRequestedFrom(json);
    if (type == "verdict_reached") return VerdictReachedFrom(json);
    if (type == "job_ended") return JobEndedFrom(json);
    if (type == "host_quarantined") return HostQuarantinedFrom(json);
  } catch (const Json::exception& error) {
    // It escapes other control characters of the body itself.
    return absl::DataLossError(absl::StrCat(
        "its body is malformed: ",
        BoundedUtf8(absl::StrReplaceAll(error.what(), {{"\x7f", "\\x7f"}}),
                    kMaxCitedBytes)));
  }
  return absl::DataLossError(
      absl::StrCat("its type \"",
                   absl::Utf8SafeCHexEscape(BoundedUtf8(type, kMaxCitedBytes)),
                   "\" is unknown"));
}

}  // namespace ringmaster::coordinator
