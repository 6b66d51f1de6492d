#include "worker/nn/model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"

namespace ringmaster {

template <typename T>
absl::Status BoundTensors<T>::Bind(absl::Span<const TensorSpec> specs,
                                   const Plan& plan,
                                   absl::Span<const T> parameters,
                                   absl::Span<T> gradients,
                                   const std::string& kind) {
  const size_t total = static_cast<size_t>(plan.total_elems());
  if (parameters.size() != total || gradients.size() != total) {
    return absl::InvalidArgumentError(absl::StrCat(
        kind, ": the plan has ", total, " elements, but there are ",
        parameters.size(), " parameters and ", gradients.size(), " gradients"));
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
  tensors_.clear();
  for (const PlannedTensor& tensor : plan.tensors()) {
    tensors_.push_back({parameters.data() + tensor.range.begin,
                        gradients.data() + tensor.range.begin});
  }
  return absl::OkStatus();
}

template <typename T>
void BoundTensors<T>::CheckBatch(const Batch& batch, const ModelInput& input,
                                 int64_t max_batch) const {
  RM_CHECK(is_bound(), "a model is bound before it is run");
  RM_CHECK(batch.size() <= max_batch && batch.shape() == input.shape,
           "the batch does not fit the model");
}

template class BoundTensors<float>;
template class BoundTensors<double>;

}  // namespace ringmaster
