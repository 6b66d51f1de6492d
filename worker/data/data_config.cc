#include "worker/data/data_config.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ringmaster {
namespace {

// The data set of 2^40 samples would take longer than any job; larger numbers
// are mistakes, and could overflow.
constexpr int64_t kMaxSamples = int64_t{1} << 40;
constexpr int64_t kMaxWindow = 4096;

template <typename T>
absl::Status BadField(const char* field, const T& value, const char* bounds) {
  return absl::InvalidArgumentError(
      absl::StrCat("data.", field, " is ", value, ", but must be ", bounds));
}

}  // namespace

absl::Status DataConfig::Validate() const {
  if (kind != "text" && kind != "synthetic") {
    return absl::InvalidArgumentError(
        absl::StrCat("data.kind is \"", kind, "\"; known are text, synthetic"));
  }
  if (kind == "text" && path.empty()) {
    return absl::InvalidArgumentError(
        "data.path is empty, but data.kind text needs a file or a directory");
  }
  if (window < 1 || window > kMaxWindow)
    return BadField("window", window, "in [1, 4096]");
  if (!(eval_fraction >= 0 && eval_fraction < 1))
    return BadField("eval_fraction", eval_fraction, "in [0, 1)");
  if (max_bytes < 1) return BadField("max_bytes", max_bytes, "at least 1");
  if (num_samples < 1 || num_samples > kMaxSamples)
    return BadField("num_samples", num_samples, "in [1, 2^40]");
  return absl::OkStatus();
}

std::string DataConfig::CanonicalText() const {
  std::string text =
      absl::StrFormat("data %s window=%d eval_fraction=%.17g seed=%d", kind,
                      window, eval_fraction, seed);
  if (kind == "synthetic") absl::StrAppend(&text, " num_samples=", num_samples);
  return text;
}

}  // namespace ringmaster
