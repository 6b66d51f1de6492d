// GroupStore is where the ranks of a process group find each other: the store
// that PyTorch's init_process_group was given, seen without PyTorch.
#ifndef RINGMASTER_WORKER_TORCH_GROUP_STORE_H_
#define RINGMASTER_WORKER_TORCH_GROUP_STORE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster {

// Keys are the group's own. Thread-compatible.
class GroupStore {
 public:
  virtual ~GroupStore() = default;

  // UNAVAILABLE: the store is gone.
  [[nodiscard]] virtual absl::Status Set(const std::string& key,
                                         const std::string& value) = 0;

  // Returns true if somebody has set `key`. UNAVAILABLE: the store is gone.
  [[nodiscard]] virtual absl::StatusOr<bool> Has(const std::string& key) = 0;

  // Waits until somebody has set `key`.
  //   DEADLINE_EXCEEDED  nobody has within `limit`
  //   UNAVAILABLE        the store is gone
  [[nodiscard]] virtual absl::StatusOr<std::string> Get(
      const std::string& key, absl::Duration limit) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_GROUP_STORE_H_
