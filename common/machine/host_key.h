// HostKey identifies a host: workers that share it have the same key.
#ifndef RINGMASTER_COMMON_MACHINE_HOST_KEY_H_
#define RINGMASTER_COMMON_MACHINE_HOST_KEY_H_

#include <string>
#include <string_view>

namespace ringmaster {

// A hash of the host's name, of its boot and of the network namespace: equal
// for two processes only if they can reach each other over loopback, so that
// network namespaces and containers count as hosts of their own.
[[nodiscard]] std::string MakeHostKey(std::string_view hostname,
                                      std::string_view boot_id,
                                      std::string_view network_namespace);

// Returns this process's key; values that the system does not report count as
// empty.
[[nodiscard]] std::string ThisHostKey();

// The host's name as the kernel knows it; "localhost" if it has none.
[[nodiscard]] std::string ThisHostName();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_HOST_KEY_H_
