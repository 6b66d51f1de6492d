// Tokens a second of a text that a model writes on this host: with what it
// computed for the tokens before, and anew for each token.
//
//   next_tokens --model=llama --prompt=64 --tokens=64 --threads=2
//
// Prints one JSON object. Parameters are initial ones, which costs no less.
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock/clock.h"
#include "common/config/flags.h"
#include "common/plan/plan.h"
#include "common/status/check.h"
#include "common/sync/thread_pool.h"
#include "worker/nn/initialize.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

using Settings = ModelConfig::Settings;

// GPT-2 124M, and Llama 160M.
const std::map<std::string, Settings>& Models() {
  static const auto& models =
      *new std::map<std::string, Settings>{{"gpt",
                                            {{"vocabulary", {50257}},
                                             {"window", {1024}},
                                             {"layers", {12}},
                                             {"heads", {12}},
                                             {"width", {768}}}},
                                           {"llama",
                                            {{"vocabulary", {32000}},
                                             {"window", {2048}},
                                             {"layers", {12}},
                                             {"heads", {12}},
                                             {"width", {768}},
                                             {"hidden", {3072}}}}};
  return models;
}

int Main(int argc, char** argv) {
  std::string kind = "gpt";
  int64_t prompt = 64;
  int64_t tokens = 64;
  int64_t threads = 2;
  FlagSet set("next_tokens", "Times how a model continues a text.");
  set.Add({.name = "model", .choices = {"gpt", "llama"}}, &kind);
  set.Add({.name = "prompt", .min = 1, .max = 512}, &prompt);
  set.Add({.name = "tokens", .min = 1, .max = 512}, &tokens);
  set.Add({.name = "threads", .min = 1, .max = 64}, &threads);
  if (const auto code = set.ParseCommandLine(argc, argv); code.has_value())
    return static_cast<int>(*code);
  ThreadPool pool(static_cast<int>(threads));
  const auto model = CreateModel<float>({kind, Models().at(kind)},
                                        {.pool = pool}, /*max_batch=*/1);
  RM_CHECK(model.ok(), "a model");
  const Plan plan = *Plan::Create(kind, (*model)->specs(), {});
  std::vector<float> parameters(static_cast<size_t>(plan.total_elems()));
  std::vector<float> gradients(parameters.size());
  InitializeParameters(plan, /*seed=*/1, absl::MakeSpan(parameters));
  RM_CHECK((*model)->Bind(plan, parameters, absl::MakeSpan(gradients)).ok(),
           "parameters");

  std::vector<int32_t> text;
  for (int64_t i = 0; i < prompt + tokens; ++i)
    text.push_back(static_cast<int32_t>(1 + 7 * i % 250));
  const auto seconds = [&](bool is_anew) {
    absl::Duration sum;
    for (int64_t i = 0; i < tokens; ++i) {
      // The next text does not begin with this one.
      if (is_anew) RM_CHECK((*model)->NextTokenLogits({0}).ok(), "logits");
      const MonotonicTime begin = Clock::Real().Now();
      RM_CHECK((*model)
                   ->NextTokenLogits(absl::MakeConstSpan(text).first(
                       static_cast<size_t>(prompt + i)))
                   .ok(),
               "logits");
      sum += Clock::Real().Now() - begin;
    }
    return absl::ToDoubleSeconds(sum);
  };
  const double count = static_cast<double>(tokens);
  const double kept = seconds(false);
  const double anew = seconds(true);
  std::printf(
      "{\"model\": \"%s\", \"prompt\": %lld, \"tokens\": %lld, "
      "\"tokens_per_second\": %.2f, \"anew\": %.2f}\n",
      kind.c_str(), static_cast<long long>(prompt),
      static_cast<long long>(tokens), count / kept, count / anew);
  return 0;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
