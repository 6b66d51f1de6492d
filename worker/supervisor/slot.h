// Slots: the names and addresses of the single-device processes of one
// `worker`. Pure.
#ifndef RINGMASTER_WORKER_SUPERVISOR_SLOT_H_
#define RINGMASTER_WORKER_SUPERVISOR_SLOT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/config/address.h"

namespace ringmaster {

// `name` itself where there is one slot; else "name-0", "name-1", ...
[[nodiscard]] std::string SlotName(std::string_view name, int slot,
                                   int slot_count);

// `listen` with the slot's port: the given one plus `slot`, or 0 (any) for all.
// INVALID_ARGUMENT if that is beyond 65535.
[[nodiscard]] absl::StatusOr<HostPort> SlotAddress(HostPort listen, int slot);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_SLOT_H_
