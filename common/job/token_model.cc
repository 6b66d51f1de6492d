#include "common/job/token_model.h"

namespace ringmaster {
namespace {

template <typename Spec>
TokenModel ModelOf(const char* kind, const Spec& spec) {
  return {kind, spec.vocabulary(), spec.window(), spec.sample_tokens()};
}

}  // namespace

std::optional<TokenModel> TokenModelOf(const v1::ModelSpec& model) {
  if (model.has_gpt()) return ModelOf("gpt", model.gpt());
  if (model.has_llama()) return ModelOf("llama", model.llama());
  if (model.has_bert()) return ModelOf("bert", model.bert());
  return std::nullopt;
}

}  // namespace ringmaster
