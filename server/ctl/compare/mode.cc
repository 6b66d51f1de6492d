#include "server/ctl/compare/mode.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status/annotate.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kServersPrefix = "ps:";
constexpr std::string_view kColocated = "ps:colocated";

constexpr std::array<std::pair<std::string_view, v1::CollectiveAlgorithm>, 7>
    kAlgorithms = {{
        {"auto", v1::COLLECTIVE_ALGORITHM_UNSPECIFIED},
        {"ring", v1::COLLECTIVE_ALGORITHM_RING},
        {"hierarchical", v1::COLLECTIVE_ALGORITHM_HIERARCHICAL},
        {"gather_broadcast", v1::COLLECTIVE_ALGORITHM_GATHER_BROADCAST},
        {"halving_doubling", v1::COLLECTIVE_ALGORITHM_HALVING_DOUBLING},
        {"direct", v1::COLLECTIVE_ALGORITHM_DIRECT},
        {"exchange", v1::COLLECTIVE_ALGORITHM_EXCHANGE},
    }};

const auto* FindAlgorithm(std::string_view name) {
  return std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                      [&](const auto& known) { return known.first == name; });
}

}  // namespace

absl::StatusOr<Mode> ParseMode(std::string_view name) {
  if (FindAlgorithm(name) != kAlgorithms.end())
    return Mode{std::string(name), Mode::Kind::kAllReduce, 0};
  if (name == kColocated)
    return Mode{std::string(name), Mode::Kind::kColocated, 0};
  int servers = 0;
  if (name.starts_with(kServersPrefix)) {
    const std::string_view count = name.substr(kServersPrefix.size());
    if (absl::SimpleAtoi(absl::string_view(count.data(), count.size()),
                         &servers) &&
        servers >= 1 && servers <= kMaxServers) {
      return Mode{absl::StrCat("ps:", servers), Mode::Kind::kServers, servers};
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", std::string(name),
      "\" is no mode; there are ring, hierarchical, gather_broadcast, "
      "halving_doubling, direct, exchange, auto, ps:N with N from 1 to ",
      kMaxServers, ", and ps:colocated"));
}

absl::StatusOr<std::vector<Mode>> ParseModes(std::string_view text) {
  std::vector<Mode> modes;
  for (const absl::string_view piece :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    absl::StatusOr<Mode> mode =
        ParseMode(std::string_view(piece.data(), piece.size()));
    if (!mode.ok()) return Annotate(mode.status(), "--modes");
    const bool is_known = std::any_of(
        modes.begin(), modes.end(),
        [&](const Mode& other) { return other.name == mode->name; });
    if (is_known) {
      return absl::InvalidArgumentError(
          absl::StrCat("--modes: ", mode->name, " is there twice"));
    }
    modes.push_back(*std::move(mode));
  }
  return modes;
}

void ApplyMode(const Mode& mode, v1::TrainProgram& program) {
  program.clear_parameter_server();
  program.mutable_collective()->clear_algorithm();
  switch (mode.kind) {
    case Mode::Kind::kAllReduce:
      program.mutable_collective()->set_algorithm(
          FindAlgorithm(mode.name)->second);
      break;
    case Mode::Kind::kServers:
      program.mutable_parameter_server()->set_servers(mode.servers);
      break;
    case Mode::Kind::kColocated:
      program.mutable_parameter_server()->set_colocated(true);
      break;
  }
}

}  // namespace ringmaster::ctl
