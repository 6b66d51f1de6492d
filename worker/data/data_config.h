// DataConfig is what a job says about its data.
#ifndef RINGMASTER_WORKER_DATA_DATA_CONFIG_H_
#define RINGMASTER_WORKER_DATA_DATA_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace ringmaster {

struct DataConfig {
  // "text" or "synthetic".
  std::string kind = "synthetic";
  // text: a file, or a directory whose files are read.
  std::string path = "";
  // Tokens in a sample, in [1, 4096]; equal to the model's window.
  int64_t window = 16;
  // In [0, 1): the last part of the data is held out.
  double eval_fraction = 0.1;
  // Of the order of samples, and of synthetic contents.
  uint64_t seed = 1;
  // text: more data than this is an error; at least 1.
  int64_t max_bytes = int64_t{1} << 30;
  // synthetic: size of the data set, held-out part included, in [1, 2^40].
  int64_t num_samples = 65536;

  // INVALID_ARGUMENT names the first bad field as "data.<field>", with its
  // value and its bounds.
  [[nodiscard]] absl::Status Validate() const;
  // One line, equal for equal settings; for Plan's settings. Paths are left
  // out: the fingerprint speaks for contents.
  std::string CanonicalText() const;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_DATA_CONFIG_H_
