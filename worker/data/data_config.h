// DataConfig is what a job says about its data.
#ifndef RINGMASTER_WORKER_DATA_DATA_CONFIG_H_
#define RINGMASTER_WORKER_DATA_DATA_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace ringmaster {

struct DataConfig {
  std::string kind = "synthetic";  // "text" or "synthetic"
  std::string path = "";  // text: a file, or a directory whose files are read
  int64_t window = 16;  // tokens in a sample, > 0; equal to the model's window
  double eval_fraction =
      0.1;            // in [0, 1): the last part of the data is held out
  uint64_t seed = 1;  // of the order of samples, and of synthetic contents
  int64_t max_bytes = int64_t{1}
                      << 30;  // text: more data than this is an error, > 0
  int64_t num_samples =
      65536;  // synthetic: size of the data set, held-out part included, > 0

  // INVALID_ARGUMENT names the first bad field as "data.<field>", with its
  // value and its bounds.
  [[nodiscard]] absl::Status Validate() const;
  // One line, equal for equal settings; for Plan's settings. Paths are left
  // out: the fingerprint speaks for contents.
  std::string CanonicalText() const;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_DATA_CONFIG_H_
