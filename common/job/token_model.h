// TokenModelOf gives what is common to the models of text that have a vocabulary
// of their own.
//
// Thread-safety: pure.
#ifndef RINGMASTER_COMMON_JOB_TOKEN_MODEL_H_
#define RINGMASTER_COMMON_JOB_TOKEN_MODEL_H_

#include <optional>

#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

struct TokenModel {
  const char* kind;  // "gpt"
  int vocabulary;
  int window;
  int sample_tokens;
};

// Nothing for models of other data, and for custom ones, of which nothing is
// known.
[[nodiscard]] std::optional<TokenModel> TokenModelOf(
    const v1::ModelSpec& model);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_JOB_TOKEN_MODEL_H_
