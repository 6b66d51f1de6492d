#include "worker/train/output/text_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/counter_random.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int64_t kByteValues = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<TextSampler>> TextSampler::Create(
    const SampleConfig& config, const std::string& vocabulary_path,
    const std::string& merges_path, int64_t vocabulary) {
  if (config.prompt.empty())
    return absl::InvalidArgumentError("the prompt must not be empty");
  std::unique_ptr<BpeTokenizer> tokenizer;
  if (!vocabulary_path.empty()) {
    ASSIGN_OR_RETURN(tokenizer,
                     BpeTokenizer::Load(vocabulary_path, merges_path));
  }
  const int64_t needed =
      tokenizer == nullptr ? kByteValues : tokenizer->vocabulary();
  if (vocabulary < needed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model has ", vocabulary, " tokens, but text needs ", needed));
  }
  return std::unique_ptr<TextSampler>(
      new TextSampler(config, std::move(tokenizer)));
}

absl::StatusOr<std::unique_ptr<TextSampler>> TextSampler::OfJob(
    const ProgramConfig& config, const ModelInput& input) {
  const v1::SampleSpec& sample = config.program.sample();
  if (sample.prompt().empty()) return nullptr;
  if (input.shape.tokens == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "train.sample: the model ", config.model.kind, " does not write text"));
  }
  absl::StatusOr<std::unique_ptr<TextSampler>> sampler = Create(
      {.prompt = sample.prompt(),
       .bytes = sample.bytes(),
       .temperature = sample.temperature(),
       .top_k = sample.top_k()},
      config.data.vocabulary_path, config.data.merges_path, input.vocabulary);
  if (!sampler.ok()) return Annotate(sampler.status(), "train.sample");
  return sampler;
}

int64_t TextSampler::text_vocabulary() const {
  return tokenizer_ == nullptr ? kByteValues : tokenizer_->vocabulary();
}

std::vector<int32_t> TextSampler::Encode(std::string_view text) const {
  if (tokenizer_ != nullptr) return tokenizer_->Encode(text);
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

absl::StatusOr<std::string> TextSampler::Write(
    Model<float>& model, uint64_t key, const CancelToken& cancel,
    absl::FunctionRef<bool()> is_enough) {
  // Since the last text, parameters may have changed.
  model.ForgetContext();
  std::vector<int32_t> tokens = Encode(config_.prompt);
  std::string text;
  // Tokens are counted too: a made-up vocabulary may have empty ones.
  for (int64_t draw = 0;
       draw < config_.bytes &&
       static_cast<int64_t>(text.size()) < config_.bytes && !is_enough();
       ++draw) {
    RETURN_IF_ERROR(cancel.status());
    ASSIGN_OR_RETURN(const absl::Span<const float> logits,
                     model.NextTokenLogits(tokens));
    const int32_t token = DrawToken(
        logits.subspan(0, static_cast<size_t>(text_vocabulary())),
        config_.temperature, config_.top_k,
        UnitInterval(CounterRandom(key, static_cast<uint64_t>(draw))));
    if (token < 0) {
      return absl::FailedPreconditionError(
          "the model's logits are not finite: training has diverged");
    }
    if (tokenizer_ == nullptr) {
      text.push_back(static_cast<char>(token));
    } else {
      if (tokenizer_->end_of_text() == token) break;
      ASSIGN_OR_RETURN(const std::string piece, tokenizer_->Decode({token}));
      text.append(piece);
    }
    tokens.push_back(token);
  }
  return text;
}

int32_t DrawToken(absl::Span<const float> logits, double temperature,
                  int64_t top_k, double random) {
  for (const float logit : logits) {
    if (std::isnan(logit)) return -1;
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_better = [&logits](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (temperature == 0) top_k = 1;
  if (top_k > 0 && top_k < static_cast<int64_t>(order.size())) {
    std::partial_sort(order.begin(), order.begin() + top_k, order.end(),
                      is_better);
    order.resize(static_cast<size_t>(top_k));
  }
  const int32_t best = *std::min_element(order.begin(), order.end(), is_better);
  if (!std::isfinite(logits[best])) return -1;
  if (order.size() == 1) return best;
  std::vector<double> weights;
  for (const int32_t token : order) {
    weights.push_back(std::exp(
        (static_cast<double>(logits[token]) - logits[best]) / temperature));
  }
  double left = random * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return best;  // rounding ate the rest
}

}  // namespace ringmaster
