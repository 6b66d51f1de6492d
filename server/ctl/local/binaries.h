// FindBinary: where the other programs of Ringmaster are.
#ifndef RINGMASTER_SERVER_CTL_LOCAL_BINARIES_H_
#define RINGMASTER_SERVER_CTL_LOCAL_BINARIES_H_

#include <string>

#include "absl/status/statusor.h"

namespace ringmaster::ctl {

// The places to look for binaries in.
struct BinaryPlaces {
  std::string bin_dir = {};   // --bin_dir; only there if given
  std::string own_path = {};  // of this program: its directory, its place in
                              // bazel-bin, its runfiles
  std::string runfiles_dir = {};  // RUNFILES_DIR, which Bazel sets for tests
};

// The places of this process.
[[nodiscard]] BinaryPlaces OwnPlaces(const std::string& bin_dir);

// The path of "coordinator", "worker" or "parameter_server". NOT_FOUND tells
// where it looked.
[[nodiscard]] absl::StatusOr<std::string> FindBinary(
    const std::string& name, const BinaryPlaces& places);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_LOCAL_BINARIES_H_
