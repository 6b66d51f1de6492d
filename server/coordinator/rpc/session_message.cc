#include "server/coordinator/rpc/session_message.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/config/address.h"
#include "common/job/job_spec.h"
#include "common/parameter_server/shard_placement_proto.h"
#include "common/parameter_server/staleness.h"
#include "common/plan/mesh.h"
#include "common/protocol/collective_costs_proto.h"
#include "common/protocol/labels.h"
#include "common/protocol/no_figures.h"
#include "common/protocol/proto_time.h"
#include "common/secrets/digest.h"
#include "common/secrets/random.h"
#include "common/status/annotate.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "common/text/utf8.h"
#include "server/coordinator/rpc/job_sharding.h"

namespace ringmaster::coordinator {
namespace {

std::string BoundedText(std::string_view text, size_t max_bytes = kMaxText) {
  return BoundedUtf8(text, max_bytes);
}

// As many as there are, for buckets of rising size.
constexpr int kMaxAlgorithms = 16;

// As many hold shards as a job may have workers, and each as many as a job may
// have connections.
constexpr int64_t kMaxHolders = 4096;
constexpr int64_t kMaxShards = kMaxHolders * kMaxConnections;

// No worker reaches this step, or this collective; sums with numbers up to it do
// not overflow. The core knows the bounds of the job.
constexpr int64_t kMaxStep = int64_t{1} << 62;

// Longer patience counts as this much, and so does a checkpoint that takes longer.
constexpr absl::Duration kMaxPatience = absl::Hours(365 * 24);

absl::Duration BoundedTime(const google::protobuf::Duration& time) {
  return std::clamp(FromProto(time), absl::ZeroDuration(), kMaxPatience);
}

absl::Status Violation(std::string message) {
  return WithReason(absl::InvalidArgumentError(std::move(message)),
                    reason::kSessionProtocolViolation);
}

// The checks of one message; the first that fails is kept.
class Checks {
 public:
  explicit Checks(const char* message) : message_(message) {}

  void Range(const char* field, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    Fail(absl::StrCat(message_, ".", field, " must be in [", low, ", ", high,
                      "], got ", value));
  }
  void NotNegative(const char* field, int64_t value) {
    if (value >= 0) return;
    Fail(absl::StrCat(message_, ".", field, " must not be negative, got ",
                      value));
  }
  // Not empty, not longer than `max_bytes`, and printable ASCII without spaces:
  // it appears in addresses and log lines.
  void Word(const char* field, const std::string& text, size_t max_bytes) {
    bool is_good = !text.empty() && text.size() <= max_bytes;
    for (const char c : text) is_good = is_good && absl::ascii_isgraph(c);
    if (is_good) return;
    Fail(absl::StrCat(message_, ".", field, " must have 1 to ", max_bytes,
                      " printable characters without spaces, got ",
                      Quoted(text, max_bytes)));
  }
  void That(bool holds, const char* field, const std::string& rule) {
    if (!holds) Fail(absl::StrCat(message_, ".", field, " ", rule));
  }

  const absl::Status& status() const { return status_; }

 private:
  void Fail(std::string text) {
    if (status_.ok()) status_ = Violation(std::move(text));
  }

  const char* const message_;
  absl::Status status_;
};

// A kind of device that this build does not know is shown as none.
v1::DeviceKind DeviceKindOf(v1::DeviceKind kind) {
  return v1::DeviceKind_IsValid(kind) ? kind : v1::DEVICE_KIND_UNSPECIFIED;
}

// A phase that this build does not know counts as none: nothing is learned
// about its length, so its members get the longest patience.
v1::Phase PhaseOf(v1::Phase phase) {
  return v1::Phase_IsValid(phase) ? phase : v1::PHASE_UNSPECIFIED;
}

// Makes durations valid for JSON: a malformed one would keep the whole status
// from being shown. Absent ones become zeros.
void MakeFit(std::initializer_list<google::protobuf::Duration*> durations) {
  for (google::protobuf::Duration* const duration : durations)
    *duration = ToProto(FromProto(*duration));
}

void MakeFit(v1::PhaseDurations& phases) {
  MakeFit({phases.mutable_data_wait(), phases.mutable_forward(),
           phases.mutable_backward(), phases.mutable_communication_wait(),
           phases.mutable_optimizer(), phases.mutable_snapshot()});
}

// Figures that this version knows are shorter. Unknown fields of longer ones
// are dropped, so that no worker can make a member's entry large. (Searching
// for them costs more than all other handling of a beat.)
constexpr size_t kMaxFiguresBytes = 2048;

template <typename Figures>
Figures BoundedFigures(const Figures& figures) {
  Figures bounded = figures;
  if (bounded.ByteSizeLong() > kMaxFiguresBytes) bounded.DiscardUnknownFields();
  return bounded;
}

v1::TrainingFigures FiguresOf(bool is_there,
                              const v1::TrainingFigures& figures) {
  if (!is_there) return NoFigures();
  v1::TrainingFigures known = BoundedFigures(figures);
  MakeFit({known.mutable_step_duration(), known.mutable_remaining_duration(),
           known.mutable_all_reduce_duration(),
           known.mutable_predicted_all_reduce_duration()});
  MakeFit(*known.mutable_phases());
  known.clear_all_reduce_algorithms();
  for (const int algorithm : figures.all_reduce_algorithms()) {
    if (known.all_reduce_algorithms_size() >= kMaxAlgorithms) break;
    if (algorithm > 0 && v1::CollectiveAlgorithm_IsValid(algorithm)) {
      known.add_all_reduce_algorithms(
          static_cast<v1::CollectiveAlgorithm>(algorithm));
    }
  }
  return known;
}

std::shared_ptr<const v1::RankFigures> RankFiguresOf(
    bool is_there, const v1::RankFigures& rank) {
  if (!is_there) return nullptr;
  auto known = std::make_shared<v1::RankFigures>(BoundedFigures(rank));
  MakeFit({known->mutable_duration(), known->mutable_cpu_time()});
  MakeFit(*known->mutable_phases());
  constexpr int kMostCounts = static_cast<int>(kStalenessBins);
  if (known->staleness_size() > kMostCounts)
    known->mutable_staleness()->Truncate(kMostCounts);
  return known;
}

// More rows than any benchmark has; a few kilobytes.
constexpr int kMaxBenchRows = 256;

absl::StatusOr<std::optional<v1::BenchFigures>> BenchOf(
    bool is_there, const v1::BenchFigures& bench, Checks& checks) {
  if (!is_there) return std::nullopt;
  checks.Range("bench.rows", bench.rows_size(), 0, kMaxBenchRows);
  const auto finite = [&](const char* field, double value) {
    checks.That(std::isfinite(value) && value >= 0, field,
                absl::StrCat("must be a number from 0 up, got ", value));
  };
  finite("bench.limit_bytes_per_second", bench.limit_bytes_per_second());
  for (const v1::BenchRow& row : bench.rows()) {
    checks.NotNegative("bench.rows.bytes", row.bytes());
    checks.NotNegative("bench.rows.count", row.count());
    checks.NotNegative("bench.rows.iterations", row.iterations());
    checks.NotNegative("bench.rows.wrong", row.wrong());
    finite("bench.rows.p50_seconds", row.p50_seconds());
    finite("bench.rows.p99_seconds", row.p99_seconds());
    finite("bench.rows.predicted_seconds", row.predicted_seconds());
  }
  RETURN_IF_ERROR(checks.status());
  v1::BenchFigures bounded = bench;
  bounded.DiscardUnknownFields();
  bounded.set_fallback(BoundedText(bench.fallback()));
  return bounded;
}

constexpr size_t kMaxJobId = 64;

// Returns the job in a hello, or its error.
absl::StatusOr<HeldJob> ParseHeldJob(const v1::HeldJob& held,
                                     int64_t generation) {
  Checks checks("hello.held_job");
  checks.Word("job_id", held.job_id(), kMaxJobId);
  checks.That(generation > 0, "job_id", "needs the hello to name a generation");
  // While some leave and others take over from them, twice as many are members.
  checks.Range("world_size", held.world_size(), 1, 2 * kMaxHolders);
  checks.Range("servers", held.servers(), 0, 2 * kMaxHolders);
  checks.Range("rank", held.rank(), 0,
               int64_t{held.world_size()} + held.servers() - 1);
  checks.Range("resume_step", held.resume_step(), 0, kMaxStep);
  checks.Range("placements", held.placements_size(), 0, kMaxShards);
  RETURN_IF_ERROR(checks.status());
  ASSIGN_OR_RETURN(const v1::JobSpec spec, ValidateAndDefault(held.spec()));
  HeldJob job;
  static_cast<JobTerms&>(job) = TermsOf(spec);
  job.job_id = held.job_id();
  job.rank = held.rank();
  job.world_size = held.world_size();
  job.servers = held.servers();
  job.resume_step = held.resume_step();
  for (const v1::ShardPlacement& shard : held.placements()) {
    job.placements.push_back(FromProto(shard));
  }
  return job;
}

// Sets the costs of collectives where the worker is. Impossible numbers are
// left out: the worker is still welcome.
void SetCosts(const v1::Hello& hello, HelloReceived& event) {
  if (!hello.has_costs()) return;
  const absl::StatusOr<MachineCosts> costs = FromProto(hello.costs());
  if (costs.ok()) {
    event.costs = *costs;
  } else {
    event.costs_fault = std::string(costs.status().message());
  }
}

// Sets what a hello says about anything other than the worker itself. An
// invalid job is left out: the worker is still welcome.
void SetHistory(const v1::Hello& hello, HelloReceived& event) {
  if (hello.has_predecessor()) {
    event.predecessor = hello.predecessor();
    event.predecessor->DiscardUnknownFields();
  }
  if (!hello.has_held_job()) return;
  absl::StatusOr<HeldJob> held =
      ParseHeldJob(hello.held_job(), hello.generation());
  if (held.ok()) {
    event.held_job = *std::move(held);
  } else {
    event.held_job_fault = BoundedText(std::string_view(
        held.status().message().data(), held.status().message().size()));
  }
}

absl::StatusOr<EventBody> ParseHello(SessionId session, const v1::Hello& hello,
                                     std::string_view observed_host) {
  Checks checks("hello");
  checks.Word("name", hello.name(), kMaxWorkerName);
  checks.That(hello.incarnation() != 0, "incarnation", "must not be 0");
  checks.That(hello.role() == v1::ROLE_WORKER ||
                  hello.role() == v1::ROLE_PARAMETER_SERVER,
              "role", "must be ROLE_WORKER or ROLE_PARAMETER_SERVER");
  checks.Range("protocol_min", hello.protocol_min(), 1, 1'000'000);
  checks.Range("protocol_max", hello.protocol_max(), hello.protocol_min(),
               1'000'000);
  checks.Word("host", hello.host(), kMaxHostName);
  if (!hello.host_key().empty()) {
    checks.Word("host_key", hello.host_key(), kMaxHostName);
  }
  if (!hello.node().empty()) checks.Word("node", hello.node(), kMaxHostName);
  checks.That(
      hello.resume_key().empty() || hello.resume_key().size() == kKeyBytes,
      "resume_key", "must have 32 bytes");
  checks.NotNegative("pid", hello.pid());
  checks.NotNegative("device.index", hello.device().index());
  checks.Range("data_port", hello.data_port(), 1, 65535);
  if (!hello.advertise_host().empty()) {
    checks.Word("advertise_host", hello.advertise_host(), kMaxHostName);
  }
  checks.NotNegative("memory_bytes", hello.memory_bytes());
  checks.NotNegative("generation", hello.generation());
  checks.NotNegative("applied_step", hello.applied_step());
  checks.NotNegative("predecessor.pid", hello.predecessor().pid());
  checks.Range("predecessor.exit_code", hello.predecessor().exit_code(), 0,
               255);
  checks.Range("predecessor.signal", hello.predecessor().signal(), 0, 64);
  RETURN_IF_ERROR(checks.status());
  Labels labels(hello.labels().begin(), hello.labels().end());
  RETURN_IF_ERROR(Annotate(CheckOwnLabels(labels), "hello.labels"));

  HelloReceived event;
  event.labels = std::move(labels);
  event.memory_bytes = hello.memory_bytes();
  event.can_rehearse = hello.rehearses();
  event.can_probe = hello.probes();
  event.sends_logs = hello.sends_logs();
  event.records_collectives = hello.records_collectives();
  event.runs_commands = hello.runs_commands();
  event.requires_encryption = hello.requires_encryption();
  event.log_file = BoundedText(hello.log_file());
  event.session = session;
  event.name = hello.name();
  event.incarnation = hello.incarnation();
  event.role = hello.role();
  event.protocol_min = hello.protocol_min();
  event.protocol_max = hello.protocol_max();
  event.host = hello.host();
  event.host_key = hello.host_key().empty() ? hello.host() : hello.host_key();
  if (!hello.node().empty()) {
    event.container = std::exchange(event.host_key, hello.node());
    event.host = hello.node();
  }
  event.pid = hello.pid();
  event.device = {.kind = DeviceKindOf(hello.device().kind()),
                  .index = hello.device().index()};
  // Over a Unix socket nothing is observed, and the worker is on this host.
  const std::string_view fallback =
      observed_host.empty() ? "127.0.0.1" : observed_host;
  event.data_address =
      HostPort{.host = hello.advertise_host().empty() ? std::string(fallback)
                                                      : hello.advertise_host(),
               .port = hello.data_port()}
          .ToString();
  event.version = BoundedText(hello.version(), kMaxWorkerName);
  event.generation = hello.generation();
  event.formed_by = hello.formed_by();
  event.attempt = hello.attempt();
  if (!hello.resume_key().empty()) {
    event.resume_key_hash = Sha256(hello.resume_key());
  }
  event.applied_step = hello.applied_step();
  SetCosts(hello, event);
  SetHistory(hello, event);
  return event;
}

// The time that the beat tells; nullopt if it tells none, or none that can be.
std::optional<absl::Time> CertificateEndOf(const v1::Beat& beat) {
  if (!beat.has_certificate_expire_time()) return std::nullopt;
  // X.509 has years of four digits; beyond them it is no time.
  static const absl::Time kLast =
      absl::FromCivil(absl::CivilYear(10'000), absl::UTCTimeZone());
  const absl::Time end =
      absl::FromUnixSeconds(beat.certificate_expire_time().seconds());
  if (end < absl::UnixEpoch() || end >= kLast) return std::nullopt;
  return end;
}

absl::StatusOr<EventBody> ParseBeat(SessionId session, const v1::Beat& beat) {
  Checks checks("beat");
  checks.NotNegative("generation", beat.generation());
  checks.NotNegative("step", beat.step());
  checks.Range("collective_sequence", beat.collective_sequence(), 0, kMaxStep);
  checks.Range("waiting_for_rank", beat.waiting_for_rank(), -1, INT32_MAX);
  checks.NotNegative("disk_bytes", beat.disk_bytes());
  RETURN_IF_ERROR(checks.status());
  ASSIGN_OR_RETURN(std::optional<v1::BenchFigures> bench,
                   BenchOf(beat.has_bench(), beat.bench(), checks));
  return BeatReceived{
      .session = session,
      .generation = beat.generation(),
      .step = beat.step(),
      .phase = PhaseOf(beat.phase()),
      .collective_sequence = beat.collective_sequence(),
      .waiting_for_rank = beat.waiting_for_rank(),
      .disk_bytes = beat.disk_bytes(),
      .figures = FiguresOf(beat.has_figures(), beat.figures()),
      .bench = std::move(bench),
      .rank_figures = RankFiguresOf(beat.has_rank(), beat.rank()),
      .certificate_end = CertificateEndOf(beat)};
}

// Longest name of a collective operation.
constexpr size_t kMaxCollectiveName = 32;

// As many parts as there may be, see DataIdentity.
constexpr int kMaxDataParts = 64;
constexpr size_t kMaxDataPath = 1024;
// kMaxDataParts of it are less than 2^63.
constexpr int64_t kMaxOfDataPart = int64_t{1} << 56;

v1::DataIdentity DataOf(const v1::DataIdentity& data) {
  v1::DataIdentity bounded;
  for (const v1::DataPart& part : data.parts()) {
    if (bounded.parts_size() == kMaxDataParts) break;
    v1::DataPart& added = *bounded.add_parts();
    added.set_first_file(BoundedText(part.first_file(), kMaxDataPath));
    added.set_files(part.files());
    added.set_size_bytes(part.size_bytes());
    added.set_hash(part.hash());
  }
  return bounded;
}

absl::StatusOr<EventBody> ParsePrepared(SessionId session,
                                        const v1::Prepared& prepared) {
  Checks checks("prepared");
  checks.Range("generation", prepared.generation(), 1, INT64_MAX);
  v1::DataIdentity data = DataOf(prepared.data());
  for (const v1::DataPart& part : data.parts()) {
    checks.Range("data.parts.files", part.files(), 0, kMaxOfDataPart);
    checks.Range("data.parts.size_bytes", part.size_bytes(), 0, kMaxOfDataPart);
  }
  RETURN_IF_ERROR(checks.status());
  return PreparedReceived{.session = session,
                          .generation = prepared.generation(),
                          .plan_hash = prepared.plan_hash(),
                          .data_fingerprint = prepared.data_fingerprint(),
                          .summary = BoundedText(prepared.summary()),
                          .data = std::move(data)};
}

absl::StatusOr<EventBody> ParseHalted(SessionId session,
                                      const v1::Halted& halted) {
  Checks checks("halted");
  checks.Range("generation", halted.generation(), 1, INT64_MAX);
  checks.Range("applied_step", halted.applied_step(), 0, kMaxStep);
  RETURN_IF_ERROR(checks.status());
  checks.Range("complete_step", halted.complete_step(), 0, kMaxStep);
  // A member that has applied nothing may hold a step of a checkpoint.
  checks.That(halted.applied_step() == 0 ||
                  halted.complete_step() == halted.applied_step() ||
                  halted.complete_step() == halted.applied_step() + 1,
              "complete_step",
              absl::StrCat("must be applied_step (", halted.applied_step(),
                           ") or one more, got ", halted.complete_step()));
  HaltedReceived event{.session = session,
                       .generation = halted.generation(),
                       .applied_step = halted.applied_step(),
                       .complete_step = halted.complete_step(),
                       .can_go_on = halted.can_go_on()};
  std::set<int32_t> seen;
  for (const v1::HeldShard& held : halted.shards()) {
    checks.Range("shards.shard", held.shard(), 0, kMaxShards - 1);
    checks.Range("shards.complete_step", held.complete_step(), 0, kMaxStep);
    checks.That(seen.insert(held.shard()).second, "shards",
                absl::StrCat("must name each shard once, got ", held.shard(),
                             " twice"));
    RETURN_IF_ERROR(checks.status());
    event.shards.push_back({held.shard(), held.complete_step()});
  }
  RETURN_IF_ERROR(checks.status());
  return event;
}

// A kind of failure of a later release is not known here.
v1::LinkFailure KnownFailure(v1::LinkFailure failure) {
  return v1::LinkFailure_IsValid(failure) ? failure
                                          : v1::LINK_FAILURE_UNSPECIFIED;
}

absl::StatusOr<EventBody> ParseSuspicion(SessionId session,
                                         const v1::Suspicion& suspicion) {
  Checks checks("suspicion");
  checks.Range("generation", suspicion.generation(), 1, INT64_MAX);
  checks.NotNegative("peer_rank", suspicion.peer_rank());
  checks.NotNegative("step", suspicion.step());
  checks.Range("collective_sequence", suspicion.collective_sequence(), 0,
               kMaxStep);
  RETURN_IF_ERROR(checks.status());
  return SuspicionReceived{
      .session = session,
      .generation = suspicion.generation(),
      .peer_rank = suspicion.peer_rank(),
      .detail = BoundedText(suspicion.detail()),
      .step = suspicion.step(),
      .collective_sequence = suspicion.collective_sequence(),
      .is_unreached = suspicion.has_unreached()
                          ? std::optional(suspicion.unreached())
                          : std::nullopt,
      .holds_other_state = suspicion.holds_other_state(),
      .failure = KnownFailure(suspicion.failure())};
}

absl::StatusOr<EventBody> ParseProbed(SessionId session,
                                      const v1::Probed& probed) {
  Checks checks("probed");
  checks.Range("generation", probed.generation(), 1, INT64_MAX);
  checks.Range("results", probed.results_size(), 0, kMostProbers);
  for (const v1::ProbeResult& result : probed.results())
    checks.NotNegative("results.peer_rank", result.peer_rank());
  RETURN_IF_ERROR(checks.status());
  ProbedReceived event{session, probed};
  for (v1::ProbeResult& result : *event.probed.mutable_results()) {
    result.set_detail(BoundedText(result.detail()));
    result.set_failure(KnownFailure(result.failure()));
  }
  return event;
}

absl::StatusOr<EventBody> ParseFinished(SessionId session,
                                        const v1::Finished& finished) {
  Checks checks("finished");
  checks.Range("generation", finished.generation(), 1, INT64_MAX);
  checks.NotNegative("step", finished.step());
  RETURN_IF_ERROR(checks.status());
  ASSIGN_OR_RETURN(std::optional<v1::BenchFigures> bench,
                   BenchOf(finished.has_bench(), finished.bench(), checks));
  return FinishedReceived{
      .session = session,
      .generation = finished.generation(),
      .step = finished.step(),
      .parameters_hash = finished.parameters_hash(),
      .is_stopped = finished.stopped(),
      .figures = FiguresOf(finished.has_figures(), finished.figures()),
      .bench = std::move(bench),
      .rank_figures = RankFiguresOf(finished.has_rank(), finished.rank())};
}

absl::StatusOr<EventBody> ParseFailed(SessionId session,
                                      const v1::Failed& failed) {
  Checks checks("failed");
  checks.NotNegative("generation", failed.generation());
  checks.NotNegative("step", failed.step());
  checks.Range("exit_code", failed.exit_code(), 1, 255);
  RETURN_IF_ERROR(checks.status());
  return FailedReceived{.session = session,
                        .generation = failed.generation(),
                        .step = failed.step(),
                        .exit_code = failed.exit_code(),
                        .message = BoundedText(failed.message()),
                        .is_of_job = failed.of_job(),
                        .was_preparing = failed.preparing()};
}

// A kind that this build does not know is only proof of life.
absl::StatusOr<EventBody> ParseNotice(SessionId session,
                                      const v1::Notice& notice) {
  Checks checks("notice");
  checks.Range("generation", notice.generation(), 1, INT64_MAX);
  checks.Range("step", notice.step(), 0, kMaxStep);
  checks.Range("sample.step", notice.sample().step(), 0, kMaxStep);
  RETURN_IF_ERROR(checks.status());
  if (!v1::NoticeKind_IsValid(notice.kind()) ||
      notice.kind() == v1::NOTICE_KIND_UNSPECIFIED) {
    return HeardFrom{.session = session};
  }
  NoticeReceived event{session, notice};
  event.notice.set_message(BoundedText(notice.message()));
  event.notice.set_checkpoint(notice.kind() == v1::NOTICE_KIND_CHECKPOINT_LOADED
                                  ? BoundedText(notice.checkpoint())
                                  : "");
  event.notice.set_checkpoint_job_id(BoundedText(notice.checkpoint_job_id()));
  *event.notice.mutable_duration() = ToProto(BoundedTime(notice.duration()));
  v1::TextSample& sample = *event.notice.mutable_sample();
  sample.set_prompt(BoundedText(sample.prompt()));
  sample.set_text(BoundedText(sample.text(), kMaxSampleText));
  return event;
}

absl::StatusOr<EventBody> ParseLeaving(SessionId session,
                                       const v1::Leaving& leaving) {
  Checks checks("leaving");
  checks.NotNegative("step", leaving.step());
  RETURN_IF_ERROR(checks.status());
  return LeavingReceived{.session = session,
                         .reason = BoundedText(leaving.reason()),
                         .is_done = leaving.done(),
                         .step = leaving.step(),
                         .patience = BoundedTime(leaving.patience())};
}

// A span of a collective in an answer that was made at `taken`.
void CheckCollective(const v1::TraceSpan& span, int64_t taken, Checks& checks) {
  checks.Word("spans.name", span.name(), kMaxCollectiveName);
  checks.Range("spans.step", span.step(), 0, kMaxStep);
  checks.Range("spans.bucket", span.bucket(), -1, kMaxStep);
  checks.Range("spans.bytes", span.bytes(), 0, kMaxStep);
  checks.Range("spans.waited_nanos", span.waited_nanos(), 0, taken);
  checks.NotNegative("spans.awaited_rank", span.awaited_rank());
  const int64_t ready = span.ready_nanos();
  checks.Range("spans.ready_nanos", ready, 0, taken);
  if (span.state() == v1::SPAN_STATE_QUEUED) return;
  const int64_t start = span.start_nanos();
  checks.Range("spans.start_nanos", start, ready, taken);
  if (span.state() == v1::SPAN_STATE_UNDER_WAY) return;
  checks.Range("spans.end_nanos", span.end_nanos(), start, taken);
}

absl::StatusOr<EventBody> ParseTraceReply(SessionId session,
                                          const v1::RankTrace& trace) {
  HeardFrom event{.session = session};
  if (trace.generation() == 0) return event;
  Checks checks("trace");
  checks.NotNegative("generation", trace.generation());
  checks.NotNegative("taken_nanos", trace.taken_nanos());
  checks.NotNegative("left_out_count", trace.left_out_count());
  checks.Range("spans", trace.spans_size(), 0, kMaxRecordedCollectives);
  RETURN_IF_ERROR(checks.status());
  int64_t last_sequences[] = {0, 0};  // in host memory, on devices
  for (const v1::TraceSpan& span : trace.spans()) {
    CheckCollective(span, trace.taken_nanos(), checks);
    int64_t& last = last_sequences[span.is_on_device() ? 1 : 0];
    checks.Range("spans.sequence", span.sequence(), last + 1, kMaxStep);
    RETURN_IF_ERROR(checks.status());
    last = span.sequence();
  }
  event.collectives = std::make_shared<const v1::RankTrace>(trace);
  return event;
}

}  // namespace

absl::StatusOr<EventBody> ParseSessionMessage(SessionId session,
                                              const v1::SessionRequest& message,
                                              std::string_view observed_host) {
  switch (message.message_case()) {
    case v1::SessionRequest::kHello:
      return ParseHello(session, message.hello(), observed_host);
    case v1::SessionRequest::kBeat:
      return ParseBeat(session, message.beat());
    case v1::SessionRequest::kPrepared:
      return ParsePrepared(session, message.prepared());
    case v1::SessionRequest::kHalted:
      return ParseHalted(session, message.halted());
    case v1::SessionRequest::kSuspicion:
      return ParseSuspicion(session, message.suspicion());
    case v1::SessionRequest::kFinished:
      return ParseFinished(session, message.finished());
    case v1::SessionRequest::kFailed:
      return ParseFailed(session, message.failed());
    case v1::SessionRequest::kLeaving:
      return ParseLeaving(session, message.leaving());
    case v1::SessionRequest::kNotice:
      return ParseNotice(session, message.notice());
    case v1::SessionRequest::kProbed:
      return ParseProbed(session, message.probed());
    case v1::SessionRequest::kTraceReply:
      return ParseTraceReply(session, message.trace_reply().trace());
    case v1::SessionRequest::kLogReply:
      return HeardFrom{.session = session};
    case v1::SessionRequest::MESSAGE_NOT_SET:
      break;
  }
  return Violation(
      "the message is empty or of a kind that this coordinator does not know");
}

}  // namespace ringmaster::coordinator
