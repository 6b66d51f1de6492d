#include "server/ctl/doctor/network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/transport/tcp.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// The buffer size that common/transport/tcp.cc asks for between hosts.
constexpr int64_t kWantedBufferBytes = int64_t{4} << 20;

std::string ToText(const Interface& interface) {
  std::string text = absl::StrCat(interface.name, " ", interface.address);
  std::vector<std::string> more;
  if (interface.mtu > 0) more.push_back(absl::StrCat("MTU ", interface.mtu));
  if (interface.speed_mbits > 0)
    more.push_back(absl::StrCat(interface.speed_mbits, " Mbit/s"));
  if (!more.empty())
    absl::StrAppend(&text, " (", absl::StrJoin(more, ", "), ")");
  return text;
}

std::vector<Interface> Outward(const std::vector<Interface>& interfaces) {
  std::vector<Interface> outward;
  std::copy_if(interfaces.begin(), interfaces.end(),
               std::back_inserter(outward),
               [](const Interface& i) { return !i.is_loopback; });
  return outward;
}

bool AnyLoopback(const std::vector<std::string>& addresses) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [](const std::string& a) { return IsLoopback(a); });
}

}  // namespace

Finding InterfacesFinding(const std::vector<Interface>& interfaces,
                          bool is_local) {
  const std::vector<Interface> outward = Outward(interfaces);
  if (outward.empty()) {
    if (interfaces.empty())
      return NotKnown("interfaces", "the system lists none with an address");
    if (is_local) return Good("interfaces", "only loopback");
    return Fail("interfaces", "only loopback is up",
                "no other host can be reached",
                "set up this host's network, or give the container one",
                ExitCode::kRetryElsewhere);
  }
  return Good("interfaces",
              absl::StrJoin(outward, "; ",
                            [](std::string* out, const Interface& interface) {
                              out->append(ToText(interface));
                            }));
}

Finding HostNameFinding(const ResolvedName& own,
                        const std::vector<Interface>& interfaces) {
  constexpr std::string_view kCheck = "host name";
  if (own.addresses.empty()) {
    return Good(kCheck, absl::StrCat(own.name, " has no address here (",
                                     own.error, "); workers need none"));
  }
  const std::string what =
      absl::StrCat(own.name, " is ", absl::StrJoin(own.addresses, ", "));
  const std::vector<Interface> outward = Outward(interfaces);
  if (!AnyLoopback(own.addresses) || own.name == "localhost" ||
      outward.empty()) {
    return Good(kCheck, what);
  }
  return Warn(
      kCheck, what,
      "a program that is given this name on this host (--listen, --advertise, "
      "--coordinator) listens on loopback, where no other host reaches it, "
      "and the job hangs",
      absl::StrCat("give ", outward.front().address,
                   " in place of the name, or change its line in /etc/hosts"));
}

Finding CoordinatorNameFinding(const ResolvedName& coordinator) {
  constexpr std::string_view kCheck = "coordinator's name";
  if (coordinator.addresses.empty()) {
    return Fail(
        kCheck,
        absl::StrCat(coordinator.name, " has no address: ", coordinator.error),
        "no worker of this host finds the coordinator",
        "check the name in --coordinator, /etc/resolv.conf and the "
        "name server; or give an address",
        ExitCode::kRetryElsewhere);
  }
  const std::string what = absl::StrCat(
      coordinator.name, " is ", absl::StrJoin(coordinator.addresses, ", "));
  const bool is_given_as_loopback = IsLoopback(coordinator.name);
  if (is_given_as_loopback || !AnyLoopback(coordinator.addresses))
    return Good(kCheck, what);
  return Warn(kCheck, what,
              "workers here look for it on this host alone, and other hosts "
              "have another idea of where it is",
              "give its address, or change the name's line in /etc/hosts");
}

Finding RouteFinding(std::string_view coordinator, const Route& route) {
  const std::string to(coordinator);
  if (route.from.empty()) {
    return Fail("route", absl::StrCat("no way to ", to, ": ", route.error),
                "no worker of this host reaches the coordinator",
                "check the address, `ip route` and this host's interfaces",
                ExitCode::kRetryElsewhere);
  }
  const std::string by =
      route.interface.empty() ? "" : absl::StrCat(" by ", route.interface);
  return Good("route", absl::StrCat("to ", to, by, ", from ", route.from));
}

std::vector<Finding> TcpFindings(const TcpFacts& facts, bool is_local) {
  std::vector<Finding> findings;
  if (facts.congestion_control.empty()) {
    findings.push_back(NotKnown("TCP", "the system does not tell"));
  } else if (!facts.congestion_control.starts_with("bbr")) {
    findings.push_back(Good("TCP", facts.congestion_control));
  } else {
    const std::string other = LocalCongestionControl(facts.congestion_control,
                                                     facts.available_controls);
    const std::string what = absl::StrCat(
        facts.congestion_control,
        other.empty() ? ""
                      : absl::StrCat(", and ", other, " inside this host"));
    findings.push_back(
        other.empty()
            ? Warn("TCP", what,
                   "it paces what ranks of one host send each other, which "
                   "costs more than half of the speed of small messages",
                   "modprobe tcp_cubic")
            : Good("TCP", what));
  }
  const int64_t least = std::min(facts.receive_bytes, facts.send_bytes);
  if (least < 0) {
    findings.push_back(NotKnown("socket buffers", "the system does not tell"));
    return findings;
  }
  const std::string what =
      absl::StrCat("at most ", FormatBytes(facts.receive_bytes),
                   " to receive, ", FormatBytes(facts.send_bytes), " to send");
  findings.push_back(
      is_local || least >= kWantedBufferBytes
          ? Good("socket buffers", what)
          : Warn("socket buffers", what,
                 "a connection between hosts has no more than that under way, "
                 "too little for a fast network",
                 "sysctl -w net.core.rmem_max=4194304 "
                 "net.core.wmem_max=4194304"));
  return findings;
}

Finding PortsFinding(const PortFacts& facts) {
  const std::string what =
      absl::StrCat(facts.free_count, " of ", facts.range.count(), " free in ",
                   facts.range.first, "-", facts.range.last);
  if (facts.free_count > 0) return Good("data ports", what);
  return Fail("data ports", absl::StrCat(what, ": ", facts.error),
              "a worker with this --data_ports cannot listen",
              "end what holds them (ss -ltnp), or give other ports",
              ExitCode::kRetryElsewhere);
}

std::vector<Finding> NetworkFindings(
    const std::optional<HostPort>& coordinator) {
  const bool is_local =
      !coordinator.has_value() || IsLoopback(coordinator->host);
  std::vector<Finding> findings = {
      InterfacesFinding(GatherInterfaces(), is_local)};
  for (Finding& finding : TcpFindings(GatherTcpFacts(), is_local))
    findings.push_back(std::move(finding));
  return findings;
}

std::vector<Finding> OwnNameFindings() {
  return {HostNameFinding(ResolveName(OwnHostName()), GatherInterfaces())};
}

std::vector<Finding> CoordinatorNameFindings(const HostPort& coordinator) {
  const ResolvedName resolved = ResolveName(coordinator.host);
  std::vector<Finding> findings = {CoordinatorNameFinding(resolved)};
  if (resolved.addresses.empty()) return findings;
  findings.push_back(RouteFinding(
      coordinator.host, RouteTo(resolved.addresses.front(), coordinator.port,
                                GatherInterfaces())));
  return findings;
}

}  // namespace ringmaster::ctl
