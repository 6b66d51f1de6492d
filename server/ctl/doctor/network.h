// The findings of `ringctl doctor` about this host's network: interfaces,
// names, the way to the coordinator, TCP, and ports.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_NETWORK_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_NETWORK_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/address.h"
#include "common/config/port_range.h"
#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

// An interface that is up, with one of its addresses.
struct Interface {
  std::string name;
  std::string address;  // without a port
  bool is_loopback = false;
  int mtu = -1;          // -1: not known
  int speed_mbits = -1;  // -1: not known, as for virtual ones
};

// A name and what the resolver makes of it.
struct ResolvedName {
  std::string name;
  std::vector<std::string> addresses;  // without ports
  std::string error;                   // "" with addresses
};

struct TcpFacts {
  std::string congestion_control;  // "cubic"; "": not known
  std::string available_controls;  // separated by blanks
  int64_t receive_bytes = -1;      // the most that a socket may ask for
  int64_t send_bytes = -1;
};

struct PortFacts {
  PortRange range;
  int free_count = 0;
  std::string error;  // of the last that is not free
};

// The way by which the kernel would send what goes to the coordinator.
struct Route {
  std::string from;       // the address of this host; "" without a way
  std::string interface;  // "" if it is none of the list
  std::string error;
};

// Each reads the system; names may take as long as the resolver does.
[[nodiscard]] std::vector<Interface> GatherInterfaces();
[[nodiscard]] ResolvedName ResolveName(const std::string& name);
[[nodiscard]] std::string OwnHostName();
[[nodiscard]] Route RouteTo(const std::string& address, int port,
                            const std::vector<Interface>& interfaces);
[[nodiscard]] TcpFacts GatherTcpFacts();
[[nodiscard]] PortFacts GatherPortFacts(PortRange range);

// Pure. `is_local`: the coordinator is on loopback, or there is none.
[[nodiscard]] Finding InterfacesFinding(
    const std::vector<Interface>& interfaces, bool is_local);
[[nodiscard]] Finding HostNameFinding(const ResolvedName& own,
                                      const std::vector<Interface>& interfaces);
[[nodiscard]] Finding CoordinatorNameFinding(const ResolvedName& coordinator);
[[nodiscard]] Finding RouteFinding(std::string_view coordinator,
                                   const Route& route);
[[nodiscard]] std::vector<Finding> TcpFindings(const TcpFacts& facts,
                                               bool is_local);
[[nodiscard]] Finding PortsFinding(const PortFacts& facts);

// The same of this machine, apart where one waits for a name server. nullopt:
// no coordinator is named.
[[nodiscard]] std::vector<Finding> NetworkFindings(
    const std::optional<HostPort>& coordinator);
[[nodiscard]] std::vector<Finding> OwnNameFindings();
[[nodiscard]] std::vector<Finding> CoordinatorNameFindings(
    const HostPort& coordinator);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_NETWORK_H_
