#include "worker/nn/testing/model_testing.h"

#include <algorithm>

namespace ringmaster {
namespace {

// Copies the rows at `places` of `from` to the first rows of `to`.
template <typename T>
void CopyRows(absl::Span<const T> from, int64_t row_elems,
              const std::vector<int64_t>& places, absl::Span<T> to) {
  for (size_t i = 0; i < places.size(); ++i) {
    std::copy_n(from.data() + places[i] * row_elems, row_elems,
                to.data() + static_cast<int64_t>(i) * row_elems);
  }
}

}  // namespace

Batch RandomBatch(const ModelInput& input, int64_t size, uint64_t key) {
  Batch batch(size, input.shape);
  batch.Resize(size);
  const auto vocabulary = static_cast<uint64_t>(input.vocabulary);
  const auto outcomes = static_cast<uint64_t>(input.outcomes());
  for (size_t i = 0; i < batch.inputs().size(); ++i) {
    batch.mutable_inputs()[i] =
        static_cast<int32_t>(CounterRandom(key, i) % vocabulary);
  }
  for (size_t i = 0; i < batch.pixels().size(); ++i)
    batch.mutable_pixels()[i] = static_cast<uint8_t>(CounterRandom(key, i));
  for (size_t i = 0; i < batch.targets().size(); ++i) {
    batch.mutable_targets()[i] =
        static_cast<int32_t>(CounterRandom(key + 1, i) % outcomes);
  }
  for (int64_t i = 0; i < size; ++i)
    batch.mutable_sample_ids()[i] = static_cast<int64_t>(1000 * key) + i;
  return batch;
}

Batch PickSamples(const Batch& batch, const std::vector<int64_t>& places) {
  const SampleShape& shape = batch.shape();
  Batch picked(static_cast<int64_t>(places.size()), shape);
  picked.Resize(picked.capacity());
  CopyRows(batch.inputs(), shape.tokens, places, picked.mutable_inputs());
  CopyRows(batch.pixels(), shape.pixels, places, picked.mutable_pixels());
  CopyRows(batch.targets(), shape.targets, places, picked.mutable_targets());
  CopyRows(batch.sample_ids(), 1, places, picked.mutable_sample_ids());
  return picked;
}

}  // namespace ringmaster
