#include "worker/nn/model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ringmaster {

absl::Status CheckBinding(absl::Span<const TensorSpec> specs, const Plan& plan,
                          size_t parameter_count, size_t gradient_count,
                          const std::string& kind) {
  const size_t total = static_cast<size_t>(plan.total_elems());
  if (parameter_count != total || gradient_count != total) {
    return absl::InvalidArgumentError(absl::StrCat(
        kind, ": the plan has ", total, " elements, but there are ",
        parameter_count, " parameters and ", gradient_count, " gradients"));
  }
  const auto is_same = [](const PlannedTensor& planned,
                          const TensorSpec& spec) {
    return planned.spec.name == spec.name && planned.spec.shape == spec.shape;
  };
  if (!std::equal(plan.tensors().begin(), plan.tensors().end(), specs.begin(),
                  specs.end(), is_same)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, ": the plan was made for other tensors"));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
