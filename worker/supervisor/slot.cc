#include "worker/supervisor/slot.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {

std::string SlotName(std::string_view name, int slot, int slot_count) {
  if (slot_count == 1) return std::string(name);
  return absl::StrCat(absl::string_view(name.data(), name.size()), "-", slot);
}

absl::StatusOr<HostPort> SlotAddress(HostPort listen, int slot) {
  if (listen.port == 0) return listen;
  if (listen.port + slot > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--data_listen: slot ", slot, " would listen on port ",
        listen.port + slot, "; choose a port below ", 65536 - slot));
  }
  listen.port += slot;
  return listen;
}

}  // namespace ringmaster
