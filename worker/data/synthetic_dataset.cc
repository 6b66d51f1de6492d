#include "worker/data/synthetic_dataset.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/plan/counter_random.h"
#include "common/status/status_macros.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

constexpr int kTokens = 64;

// Parts the key space, so that the rule and the samples draw from different
// streams.
constexpr uint64_t kRuleStream = 1;
constexpr uint64_t kSampleStream = 2;

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const DataConfig& config, int64_t held_out)
      : shape_(config.shape),
        train_size_(config.num_samples - held_out),
        held_out_size_(held_out),
        sample_key_(CounterRandom(config.seed, kSampleStream)) {
    // Fisher and Yates's shuffle. A permutation keeps all tokens equally
    // frequent.
    const uint64_t rule_key = CounterRandom(config.seed, kRuleStream);
    std::iota(successor_.begin(), successor_.end(), 0);
    for (int i = kTokens - 1; i > 0; --i)
      std::swap(successor_[i],
                successor_[CounterRandom(rule_key, i) % (i + 1)]);
    // Sample ids are the same function of the seed for every size, so the size
    // is no part of the contents of a sample, but it decides which samples
    // there are.
    const std::string contents = absl::StrFormat(
        "synthetic seed=%d num_samples=%d", config.seed, config.num_samples);
    fingerprint_ = XXH3_64bits(contents.data(), contents.size());
  }

  int64_t size(Split split) const override {
    return split == Split::kTrain ? train_size_ : held_out_size_;
  }
  const SampleShape& shape() const override { return shape_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::Status FillBatch(Split split, absl::Span<const int64_t> ids,
                         Batch& batch) const override {
    RETURN_IF_ERROR(PrepareBatch(*this, split, ids, batch));
    const int64_t first = split == Split::kTrain ? 0 : train_size_;
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t tokens = static_cast<size_t>(shape_.tokens);
      const size_t targets = static_cast<size_t>(shape_.targets);
      FillSample(first + ids[i],
                 batch.mutable_inputs().subspan(i * tokens, tokens),
                 batch.mutable_targets().subspan(i * targets, targets));
    }
    return absl::OkStatus();
  }

 private:
  // Writes sample `id`: a chain of tokens, and what follows each of the last
  // targets.size() of them.
  void FillSample(int64_t id, absl::Span<int32_t> inputs,
                  absl::Span<int32_t> targets) const {
    const uint64_t key = CounterRandom(sample_key_, id);
    const size_t first_target = inputs.size() - targets.size();
    uint64_t draw = 0;
    int32_t token = static_cast<int32_t>(CounterRandom(key, draw++) % kTokens);
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = token;
      const uint64_t bits = CounterRandom(key, draw++);
      const bool is_by_rule = bits % 8 != 0;
      token = is_by_rule ? successor_[token]
                         : static_cast<int32_t>((bits >> 3) % kTokens);
      if (i >= first_target) targets[i - first_target] = token;
    }
  }

  SampleShape shape_;
  int64_t train_size_;
  int64_t held_out_size_;
  uint64_t sample_key_;
  uint64_t fingerprint_;
  std::array<int32_t, kTokens> successor_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CreateSyntheticDataset(
    const DataConfig& config) {
  if (config.vocabulary < kTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.vocabulary: synthetic samples have ", kTokens,
                     " tokens, but the model takes ", config.vocabulary));
  }
  const auto held_out = static_cast<int64_t>(
      static_cast<double>(config.num_samples) * config.eval_fraction);
  return std::make_unique<SyntheticDataset>(
      config, std::min(held_out, config.num_samples - 1));
}

}  // namespace ringmaster
