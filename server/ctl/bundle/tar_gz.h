// TarGz makes a .tar.gz archive of files that are in memory: POSIX's ustar form,
// which every tar reads, compressed by zlib.
//
// Pure, thread-compatible. What it makes depends on what it is given only.
#ifndef RINGMASTER_SERVER_CTL_BUNDLE_TAR_GZ_H_
#define RINGMASTER_SERVER_CTL_BUNDLE_TAR_GZ_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster::ctl {

class TarGz {
 public:
  // Every file is of `time`.
  explicit TarGz(absl::Time time) : time_(time) {}

  // Adds a file. `name` is relative and of at most kMaxName bytes.
  void Add(std::string_view name, std::string_view content);

  // The archive; call it once.
  //   RESOURCE_EXHAUSTED  there is no memory for it
  [[nodiscard]] absl::StatusOr<std::string> Finish();

  static constexpr size_t kMaxName = 100;

 private:
  const absl::Time time_;
  std::string tar_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_BUNDLE_TAR_GZ_H_
