#include "server/ctl/doctor/nccl.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// "eth0:10.0.0.1<0>" without the port in brackets.
std::string Interface(std::string_view text) {
  return Printable(text.substr(0, text.find('<')));
}

// The part of `text` before the first `end`, which it loses with it.
std::string_view TakeUntil(std::string_view& text, char end) {
  const size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return part;
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Returns what follows `marker` in `text`; nullopt without it.
std::optional<std::string_view> After(std::string_view text,
                                      std::string_view marker) {
  const size_t at = text.find(marker);
  if (at == text.npos) return std::nullopt;
  return text.substr(at + marker.size());
}

// " [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"
std::vector<std::string> Interfaces(std::string_view list) {
  std::vector<std::string> interfaces;
  list = TakeUntil(list, ';');
  while (!list.empty()) {
    std::string_view word = TakeUntil(list, ' ');
    if (!TakePrefix(word, "[")) continue;
    TakeUntil(word, ']');
    if (!word.empty()) interfaces.push_back(Interface(word));
  }
  return interfaces;
}

// "Enabled for HCA 0 'mlx5_0'"
void AddGpuDirect(std::string_view text, NcclReport& report) {
  const bool has = text.starts_with("Enabled");
  TakeUntil(text, '\'');
  const std::string_view adapter = TakeUntil(text, '\'');
  if (!adapter.empty()) report.has_gpu_direct[Printable(adapter)] = has;
}

void ParseNetwork(std::string_view text, NcclReport& report) {
  if (const auto direct = After(text, " : GPU Direct RDMA ")) {
    AddGpuDirect(*direct, report);
  } else if (const auto interfaces = After(text, " : Using")) {
    report.interfaces = Interfaces(*interfaces);
  }
}

void ParseInfo(std::string_view text, NcclReport& report) {
  if (TakePrefix(text, "Bootstrap: Using ") ||
      TakePrefix(text, "Bootstrap : Using ")) {
    report.bootstrap = Interface(text);
  } else if (TakePrefix(text, "Using network ")) {
    report.network = Printable(text);
  } else if (TakePrefix(text, "Channel ")) {
    // "00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    std::string_view way = After(text, " via ").value_or("");
    if (!way.empty()) ++report.connections[Printable(TakeUntil(way, '/'))];
  } else if (text.starts_with("NVLS multicast support is available")) {
    ++report.gpus_with_nvls;
  } else if (text.starts_with("NVLS multicast support is not available")) {
    ++report.gpus_without_nvls;
  } else if (text.starts_with("NET/")) {
    ParseNetwork(text, report);
  }
}

Finding NetworkFinding(const NcclReport& report) {
  constexpr std::string_view kCheck = "NCCL's network";
  if (report.network.empty())
    return NotKnown(kCheck, "NCCL's log does not tell");
  const std::string what = absl::StrCat(
      report.network, " by ",
      report.interfaces.empty() ? "interfaces that it does not name"
                                : absl::StrJoin(report.interfaces, ", "),
      report.bootstrap.empty()
          ? ""
          : absl::StrCat("; ranks meet by ", report.bootstrap));
  const auto is_loopback = [](const std::string& interface) {
    return interface.starts_with("lo:");
  };
  if (!report.interfaces.empty() &&
      std::all_of(report.interfaces.begin(), report.interfaces.end(),
                  is_loopback)) {
    return Warn(kCheck, what, "no other host is reached by it",
                "name the interface with NCCL_SOCKET_IFNAME");
  }
  return Good(kCheck, what);
}

Finding GpuDirectFinding(const NcclReport& report) {
  constexpr std::string_view kCheck = "GPUDirect RDMA";
  if (report.has_gpu_direct.empty()) {
    return Good(kCheck,
                report.network.empty()
                    ? "not told by NCCL"
                    : absl::StrCat("none: the network is ", report.network));
  }
  std::vector<std::string> without;
  for (const auto& [adapter, has] : report.has_gpu_direct) {
    if (!has) without.push_back(adapter);
  }
  if (without.empty()) {
    return Good(kCheck,
                absl::StrCat("with all of ", report.has_gpu_direct.size(),
                             " network adapters"));
  }
  return Warn(kCheck, absl::StrCat("not with ", absl::StrJoin(without, ", ")),
              "gradients to other hosts go through the host's memory",
              "load the module nvidia_peermem, or use a kernel and a driver "
              "with DMA-BUF");
}

// For at least two GPUs.
Finding WaysFinding(const NcclReport& report) {
  constexpr std::string_view kCheck = "GPU to GPU";
  if (report.connections.empty())
    return NotKnown(kCheck, "NCCL's log names no connection");
  const std::string what = absl::StrJoin(
      report.connections, ", ", [](std::string* out, const auto& entry) {
        absl::StrAppend(out, entry.first, " on ", entry.second,
                        entry.second == 1 ? " connection" : " connections");
      });
  if (report.connections.size() == 1 && report.connections.contains("P2P"))
    return Good(kCheck, what);
  return Warn(kCheck, what,
              "what is not P2P goes through the host's memory, several times "
              "slower",
              "look at `nvidia-smi topo -m`; NCCL_P2P_DISABLE and "
              "NCCL_P2P_LEVEL must not be set; in a virtual machine, IOMMU and "
              "ACS must let GPUs reach each other");
}

Finding NvlsFinding(const NcclReport& report) {
  const int all = report.gpus_with_nvls + report.gpus_without_nvls;
  if (all == 0) return NotKnown("NVLS", "NCCL's log does not tell");
  // It wants an NVSwitch, so that lacking it is no fault.
  return Good("NVLS", absl::StrCat("reduction in the switch with ",
                                   report.gpus_with_nvls, " of ", all,
                                   all == 1 ? " GPU" : " GPUs"));
}

}  // namespace

NcclReport ParseNcclLog(std::string_view log) {
  NcclReport report;
  while (!log.empty()) {
    const std::string_view line = TakeUntil(log, '\n');
    if (const auto text = After(line, " NCCL INFO ")) {
      ParseInfo(*text, report);
    } else if (const auto warning = After(line, " NCCL WARN ")) {
      report.last_warning = Printable(*warning);
    }
  }
  return report;
}

std::vector<Finding> NcclFindings(const NcclFacts& facts) {
  const NcclReport report = ParseNcclLog(facts.log);
  if (!facts.error.empty()) {
    return {
        Fail("NCCL's start",
             absl::StrCat(facts.error, report.last_warning.empty() ? "" : ": ",
                          report.last_warning),
             "workers on GPUs cannot reduce their gradients",
             "run one with NCCL_DEBUG=INFO, and see the lines before that")};
  }
  std::vector<Finding> findings = {NetworkFinding(report),
                                   GpuDirectFinding(report)};
  if (facts.gpus > 1) findings.push_back(WaysFinding(report));
  findings.push_back(NvlsFinding(report));
  return findings;
}

}  // namespace ringmaster::ctl
