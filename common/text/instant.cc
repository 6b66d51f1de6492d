#include "common/text/instant.h"

namespace ringmaster {

std::string FormatInstant(absl::Time time, absl::TimeZone zone) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3S%Ez", time, zone);
}

}  // namespace ringmaster
