#include "server/coordinator/journal/test_records.h"

#include <string>

namespace ringmaster::coordinator {
namespace {

const absl::Time kTime = absl::FromUnixNanos(1'700'000'000'123'456'789);

MemberIdentity SomeMember() {
  MemberIdentity member;
  member.rank = 1;
  member.local_rank = 1;
  member.worker = "w\"2\xC3\xA9";
  member.incarnation = 0xFEDCBA9876543210;
  member.host = "h1";
  member.host_key = "h1/net:4";
  member.pid = 4711;
  member.data_address = "[fe80::1]:9000";
  member.device = {DeviceKind::kCuda, 3};
  member.role = Role::kParameterServer;
  return member;
}

Verdict SomeVerdict() {
  Verdict verdict;
  verdict.worker = "w2";
  verdict.rank = 1;
  verdict.host = "h1";
  verdict.pid = 4711;
  verdict.generation = 7;
  verdict.step = 40;
  verdict.collective_sequence = 123;
  verdict.summary = "it broke";
  verdict.evidence = {{EvidenceKind::kLeaseExpired, "coordinator", "silence"},
                      {EvidenceKind::kPeerReport, "w1", "reset by peer"}};
  verdict.decision = VerdictDecision::kFailJob;
  verdict.time = kTime;
  verdict.exit_code = 138;
  return verdict;
}

JobEndedRecord SomeEnd() {
  JobEndedRecord end;
  end.job_id = "j-1";
  end.state = JobState::kSucceeded;
  end.exit_code = 3;
  end.message = "all 100 steps are done";
  end.parameters_hash = 0xFFFFFFFFFFFFFFFF;
  end.verdict = SomeVerdict();
  end.bench = std::string("\x08\x00\xff bytes", 9);
  end.figures.step = 100;
  end.figures.total_steps = 101;
  end.figures.loss = 1.0 / 3;
  end.figures.samples_per_second = 1e6;
  end.figures.step_duration = absl::Microseconds(1500);
  end.figures.communication_wait_ratio = 0.25;
  end.figures.data_wait_ratio = 0.125;
  end.figures.evaluation_loss = 2.5;
  end.figures.evaluation_step = 99;
  end.figures.remaining_duration = absl::Seconds(2);
  end.figures.payload_sent_bytes = int64_t{1} << 40;
  end.figures.gradient_norm = 0.5;
  end.figures.targets_per_second = 1e7;
  end.figures.model_flops_utilization = 0.75;
  end.figures.learning_rate = 3e-4;
  end.figures.phases = {absl::Milliseconds(1), absl::Milliseconds(2),
                        absl::Milliseconds(3), absl::Milliseconds(4),
                        absl::Milliseconds(5), absl::Milliseconds(6)};
  end.figures.payload_theory_bytes = 77;
  end.figures.evaluation_accuracy = 0.875;
  end.figures.checkpoint_step = 90;
  end.figures.skipped_samples = 8;
  end.sample = TextSample{99, "The", " sea\n\xC3\xA9"};
  end.time = kTime;
  return end;
}

}  // namespace

std::vector<JournalRecord> OneOfEach() {
  JobCreatedRecord created;
  created.number = 1;
  created.id = "j-1";
  created.name = "j";
  created.spec = std::string("\0\xFF\x01spec", 7);
  created.request_id = "request 9";
  created.min_workers = 2;
  created.max_workers = 5;
  created.settle = absl::Milliseconds(750);
  created.total_steps = 101;
  created.sharding = {.servers = 3,
                      .shards = 4,
                      .lanes = 2,
                      .replicas = 1,
                      .is_lockstep = false};
  created.time = kTime;
  return {created,
          GenerationFormedRecord{
              7,
              "j-1",
              {SomeMember(), SomeMember()},
              33,
              kTime,
              true,
              {{.primary_rank = 2, .backup_rank = -1, .source_rank = 3}}},
          CancelRequestedRecord{"j-1", "enough", kTime},
          VerdictReachedRecord{"j-1", SomeVerdict()},
          SomeEnd(),
          HostQuarantinedRecord{"j-1", "h1/net:4", "h1",
                                "3 of 4 incidents within 10m",
                                kTime + absl::Minutes(10), kTime}};
}

JournalRecord FormedRecord(int64_t generation) {
  return GenerationFormedRecord{generation, "j-1", {SomeMember()}, 0, kTime};
}

}  // namespace ringmaster::coordinator
