#include "server/ctl/doctor/coordinator.h"

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// A twentieth of the default failure budget: beats must not come late.
constexpr absl::Duration kSlowRoundTrip = absl::Milliseconds(100);

Finding VersionFinding(const CoordinatorFacts& facts,
                       const std::string& own_version) {
  if (facts.version == own_version)
    return Good("coordinator's version", facts.version);
  return Warn("coordinator's version",
              absl::StrCat(facts.version, "; ringctl is ", own_version),
              "a worker without a protocol version in common is refused",
              "run one release everywhere; upgrade the coordinator first");
}

// Null: nobody's expires soon.
const v1::Worker* FirstToExpire(const v1::Status& pool) {
  const v1::Worker* first = nullptr;
  for (const v1::Worker& worker : pool.workers()) {
    if (!worker.has_certificate_expire_time()) continue;
    if (first == nullptr || worker.certificate_expire_time().seconds() <
                                first->certificate_expire_time().seconds()) {
      first = &worker;
    }
  }
  return first;
}

Finding RoundTripFinding(const CoordinatorFacts& facts) {
  const std::string what = HumanDuration(facts.round_trip);
  if (facts.round_trip <= kSlowRoundTrip) return Good("round trip", what);
  return Warn("round trip", what, "beats that come late look like lost workers",
              "move the coordinator nearer, or raise its --failure_budget");
}

}  // namespace

CoordinatorFacts GatherCoordinatorFacts(Client& client, bool is_encrypted,
                                        Clock& clock) {
  CoordinatorFacts facts;
  facts.address = client.address();
  facts.is_encrypted = is_encrypted;
  facts.status = client.GetStatus().status();
  if (!facts.status.ok()) return facts;
  const MonotonicTime start = clock.Now();
  const absl::StatusOr<v1::Status> status = client.GetStatus();
  facts.round_trip = clock.Now() - start;
  facts.status = status.status();
  if (!status.ok()) return facts;
  const absl::Time here = absl::Now() - facts.round_trip / 2;
  facts.clock_offset = FromProto(status->time()) - here;
  facts.version = status->coordinator().version();
  facts.journal_error = status->coordinator().journal_error();
  facts.other_coordinator = status->coordinator().other_coordinator();
  facts.pool = *status;
  return facts;
}

std::vector<Finding> CoordinatorFindings(const CoordinatorFacts& facts,
                                         const std::string& own_version) {
  if (!facts.status.ok()) {
    return {Fail("coordinator", std::string(facts.status.message()),
                 "workers of this host cannot join its pool",
                 "see that it runs and that nothing between here and there "
                 "keeps its port closed: `nc -vz HOST PORT`",
                 ExitCodeOf(facts.status))};
  }
  std::vector<Finding> findings = {
      Good("coordinator",
           absl::StrCat("answers at ", facts.address,
                        facts.is_encrypted ? ", by TLS" : ", in clear text",
                        ", has ", facts.pool.workers_size(), " worker",
                        facts.pool.workers_size() == 1 ? "" : "s")),
      VersionFinding(facts, own_version), RoundTripFinding(facts)};
  if (facts.pool.coordinator().requires_encryption()) {
    findings.push_back(
        Good("data encryption",
             "required: AES-256-GCM between hosts; jobs on GPUs of several "
             "hosts are refused, since NCCL does not encrypt"));
  }
  if (!facts.journal_error.empty()) {
    findings.push_back(Warn("coordinator's journal", facts.journal_error,
                            "its decisions are lost when it ends",
                            "make room on its --state_dir's disk"));
  }
  if (!facts.other_coordinator.empty()) {
    findings.push_back(
        Warn("another coordinator", facts.other_coordinator,
             "the job may be trained twice, or not at all",
             "end the wrong one: docs/operations.md, \"Two coordinators\""));
  }
  if (const v1::Worker* const first = FirstToExpire(facts.pool)) {
    findings.push_back(Warn(
        "certificate",
        absl::StrCat(
            "that of ", first->name(), " expires on ",
            absl::FormatTime("%Y-%m-%d",
                             FromProto(first->certificate_expire_time()),
                             absl::UTCTimeZone()),
            ", the first of its pool"),
        "it cannot come back from then on if its session breaks",
        "issue another one (`ringctl pki renew`) on its host; it is taken over "
        "without a restart"));
  }
  findings.push_back(
      Good("clock",
           absl::StrCat(
               "the coordinator's is ",
               HumanDuration(absl::AbsDuration(facts.clock_offset)),
               facts.clock_offset < absl::ZeroDuration() ? " behind" : " ahead",
               " (clocks need not agree)")));
  return findings;
}

}  // namespace ringmaster::ctl
