#include "worker/nn/model_config.h"

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

absl::Status CheckField(const char* field, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.", field, " is ", value, ", but must be in [1, ", max, "]"));
}

}  // namespace

absl::Status ModelConfig::Validate() const {
  absl::Status status = CheckField("window", window, 4096);
  if (status.ok()) status = CheckField("embedding_dim", embedding_dim, 4096);
  if (status.ok()) status = CheckField("hidden_dim", hidden_dim, 65536);
  if (status.ok()) status = CheckField("hidden_layers", hidden_layers, 64);
  return status;
}

std::string ModelConfig::CanonicalText() const {
  return absl::StrCat(
      "model ", kind, " window=", window, " embedding_dim=", embedding_dim,
      " hidden_dim=", hidden_dim, " hidden_layers=", hidden_layers);
}

}  // namespace ringmaster
