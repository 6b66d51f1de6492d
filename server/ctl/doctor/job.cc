#include "server/ctl/doctor/job.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/transport/reach_peers.h"
#include "nlohmann/json.hpp"
#include "server/ctl/doctor/output_of.h"

namespace ringmaster::ctl {
namespace {

struct Advice {
  const char* why;
  const char* remedy;
};

Advice AdviceOn(const std::string& part) {
  static const auto& advice = *new std::map<std::string, Advice>{
      {"memory",
       {"workers of this host refuse the job, or are killed",
        "take a smaller model or micro_batch, or fewer slots on this host"}},
      {"files",
       {"the job ends before its first step",
        "start the workers with the flag, or name files beneath the "
        "directories "
        "that they have"}},
      {"data",
       {"workers of this host leave the job out, or end it",
        "bring the data to the same path on every worker's host, readable for "
        "the worker's user"}},
      {"initial parameters",
       {"the job ends as it starts",
        "name a file that is on every worker's host and fits the model"}},
      {"sample",
       {"the job ends as it starts",
        "name the tokenizer's files, or leave train.sample out"}}};
  const auto known = advice.find(part);
  return known != advice.end()
             ? known->second
             : Advice{"the job is refused", "correct the job file"};
}

Finding NoAnswer(std::string why) {
  return Fail("job", absl::StrCat("not known: ", why),
              "a worker of this host may end in the same way",
              "see the findings on programs and memory; run a whole bundle of "
              "one release",
              ExitCode::kRetryElsewhere);
}

bool IsPart(const nlohmann::json& part) {
  const auto has = [&](const char* name, bool is_number) {
    return part.contains(name) && (is_number ? part[name].is_number_integer()
                                             : part[name].is_string());
  };
  return part.is_object() && has("part", false) && has("found", false) &&
         has("error", false) && has("exit_code", true);
}

bool IsThere(const v1::Worker& worker) {
  return worker.state() == v1::WORKER_STATE_IDLE ||
         worker.state() == v1::WORKER_STATE_ASSIGNED;
}

}  // namespace

absl::StatusOr<std::string> AskWorker(const std::string& worker,
                                      const v1::JobSpec& spec, int slots,
                                      bool is_cuda) {
  const int world_size = std::max(spec.workers().max(), slots);
  std::vector<std::string> arguments = {
      "check", absl::StrCat("--world_size=", world_size),
      absl::StrCat("--ranks_on_host=", slots)};
  if (is_cuda) arguments.push_back("--on_gpu");
  return OutputOf(worker, arguments, spec.SerializeAsString());
}

std::vector<Finding> JobPartFindings(
    const absl::StatusOr<std::string>& answer) {
  if (!answer.ok()) return {NoAnswer(std::string(answer.status().message()))};
  const nlohmann::json parts =
      nlohmann::json::parse(*answer, nullptr, /*allow_exceptions=*/false);
  if (!parts.is_array() || !std::all_of(parts.begin(), parts.end(), IsPart))
    return {NoAnswer("worker answers in another form than this release's")};
  std::vector<Finding> findings;
  for (const nlohmann::json& part : parts) {
    const std::string name = part["part"];
    const std::string check = absl::StrCat("job's ", name);
    const std::string error = part["error"];
    if (error.empty()) {
      findings.push_back(Good(check, part["found"]));
      continue;
    }
    const Advice advice = AdviceOn(name);
    findings.push_back(Fail(check, error, advice.why, advice.remedy,
                            static_cast<ExitCode>(part["exit_code"])));
  }
  return findings;
}

Finding PoolFinding(const v1::Status& status, const v1::JobSpec& spec) {
  const auto there = [&](v1::Role role) {
    return static_cast<int>(
        std::count_if(status.workers().begin(), status.workers().end(),
                      [&](const v1::Worker& worker) {
                        return IsThere(worker) && worker.role() == role;
                      }));
  };
  const int workers = there(v1::ROLE_WORKER);
  const int servers = there(v1::ROLE_PARAMETER_SERVER);
  const int wanted_servers = spec.train().parameter_server().servers();
  std::string what = absl::StrCat(
      "the pool has ", workers, workers == 1 ? " worker" : " workers",
      "; the job takes ", spec.workers().min(),
      spec.workers().max() > spec.workers().min()
          ? absl::StrCat(" to ", spec.workers().max())
          : "");
  if (wanted_servers > 0) {
    absl::StrAppend(&what, ", and ", wanted_servers,
                    " parameter servers, of which ", servers, " are there");
  }
  if (workers < spec.workers().min() || servers < wanted_servers) {
    return Warn("job's workers", what, "the job waits until there are enough",
                "start more of them, or lower workers.min");
  }
  return Good("job's workers", what);
}

std::vector<PeerFacts> PeersOf(const v1::Status& status) {
  std::vector<PeerFacts> peers;
  for (const v1::Worker& worker : status.workers()) {
    if (!IsThere(worker) || worker.data_address().empty()) continue;
    PeerFacts& peer = peers.emplace_back();
    peer.name = worker.name();
    peer.address = worker.data_address();
    // A resolver may take for ever; --peers asks it in a process of its own.
    peer.is_tried = IsNumeric(peer.address);
  }
  return peers;
}

}  // namespace ringmaster::ctl
