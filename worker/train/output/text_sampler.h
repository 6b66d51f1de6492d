// TextSampler lets a language model continue a text, token by token.
//
// Tokens are drawn from the softmax of the logits divided by a temperature,
// among the `top_k` most probable ones; with temperature 0 the most probable is
// taken. Draws are a function of the key, so the same parameters and key give
// the same text.
// Thread-safety: thread-compatible.
// Example:
//   ASSIGN_OR_RETURN(auto sampler, TextSampler::Create(config, "", "", 256));
//   ASSIGN_OR_RETURN(std::string text, sampler->Write(model, key, cancel));
#ifndef RINGMASTER_WORKER_TRAIN_OUTPUT_TEXT_SAMPLER_H_
#define RINGMASTER_WORKER_TRAIN_OUTPUT_TEXT_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/cancel_token.h"
#include "worker/data/bpe_tokenizer.h"
#include "worker/nn/model.h"
#include "worker/train/state/program_config.h"

namespace ringmaster {

// A text that a model writes.
struct SampleConfig {
  std::string prompt = "";
  int64_t bytes = 200;
  double temperature = 0.8;  // 0: the most probable token
  int64_t top_k = 0;         // 0: all tokens
};

class TextSampler {
 public:
  // Tokens are bytes, or GPT-2's if its two files are named. `vocabulary` is
  // the model's.
  //   INVALID_ARGUMENT  the prompt is empty; the model has fewer tokens than
  //                     text needs
  // and the errors of BpeTokenizer::Load.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TextSampler>> Create(
      const SampleConfig& config, const std::string& vocabulary_path,
      const std::string& merges_path, int64_t vocabulary);

  // The sampler of the job's text (train.sample), null if it has none. The errors
  // are Create's, or INVALID_ARGUMENT if its model, of which `input` is, does not
  // write text; they name the field.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TextSampler>> OfJob(
      const ProgramConfig& config, const ModelInput& input);

  // The continuation of the prompt, without the prompt: at least config.bytes
  // bytes (the last token may have more), or fewer if the text ended or
  // `is_enough`, which is called before each token, returned true.
  //   FAILED_PRECONDITION  the model does not continue text, or its logits are
  //                        not finite
  //   ABORTED              `cancel` was cancelled
  [[nodiscard]] absl::StatusOr<std::string> Write(
      Model<float>& model, uint64_t key, const CancelToken& cancel,
      absl::FunctionRef<bool()> is_enough = [] { return false; });

 private:
  TextSampler(const SampleConfig& config,
              std::unique_ptr<BpeTokenizer> tokenizer)
      : config_(config), tokenizer_(std::move(tokenizer)) {}
  std::vector<int32_t> Encode(std::string_view text) const;
  // Ids at or above it mean nothing in text.
  int64_t text_vocabulary() const;

  const SampleConfig config_;
  const std::unique_ptr<BpeTokenizer> tokenizer_;  // null: tokens are bytes
};

// Draws one of `logits`, `random` in [0, 1); see TextSampler. Pure. Requires a
// non-empty span. -1 if no logit is finite or one is NaN.
int32_t DrawToken(absl::Span<const float> logits, double temperature,
                  int64_t top_k, double random);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_OUTPUT_TEXT_SAMPLER_H_
