#include "worker/collective/nccl/nccl_settings.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/sync/mutex.h"

namespace ringmaster {
namespace {

struct Applied {
  Mutex mutex;
  std::optional<NcclSettings> settings GUARDED_BY(mutex);
};

// Never destroyed: threads may outlive main.
Applied& TheApplied() {
  static Applied& applied = *new Applied();
  return applied;
}

// Containers have the same host names and process ids again and again.
std::string UniqueHostName() {
  std::random_device random;
  return absl::StrCat("ringmaster-", getpid(), "-",
                      absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

}  // namespace

std::string ToText(const NcclSettings& settings) {
  return absl::StrCat("ring=", settings.ring ? 1 : 0,
                      " share_gpu=", settings.share_gpu ? 1 : 0);
}

std::vector<std::pair<std::string, std::string>> NcclVariables(
    const NcclSettings& settings, std::string_view host_name) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (settings.ring || settings.share_gpu) {
    variables.emplace_back("NCCL_ALGO", "Ring");
  }
  if (!settings.share_gpu) return variables;
  variables.emplace_back("NCCL_HOSTID", std::string(host_name));
  variables.emplace_back("NCCL_NET", "Socket");
  variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  variables.emplace_back("NCCL_IB_DISABLE", "1");
  variables.emplace_back("NCCL_NVLS_ENABLE", "0");
  variables.emplace_back("NCCL_MNNVL_ENABLE", "0");
  // Kernels of several processes take turns on the GPU: little is to be waited
  // for at once, and the protocol without flags in the data is the one that does
  // not spin for whole turns.
  variables.emplace_back("NCCL_MAX_CTAS", "1");
  variables.emplace_back("NCCL_PROTO", "Simple");
  return variables;
}

absl::Status ApplyNcclSettings(const NcclSettings& settings) {
  Applied& applied = TheApplied();
  MutexLock lock(applied.mutex);
  if (!applied.settings.has_value()) {
    for (const auto& [name, value] :
         NcclVariables(settings, UniqueHostName())) {
      setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
    }
    applied.settings = settings;
  }
  if (*applied.settings == settings) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL takes its settings once in a process: this one has ",
                   ToText(*applied.settings), ", not ", ToText(settings),
                   "; start another worker"));
}

}  // namespace ringmaster
