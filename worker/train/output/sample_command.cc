#include "worker/train/output/sample_command.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/flags.h"
#include "common/plan/plan.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/thread_pool.h"
#include "common/text/utf8.h"
#include "nlohmann/json.hpp"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/import_parameters.h"
#include "worker/nn/hugging_face_config.h"
#include "worker/nn/model_registry.h"
#include "worker/train/output/text_sampler.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kByteTokens = 256;

struct Flags {
  std::string checkpoint;
  SampleConfig sample;
  std::string vocabulary;
  std::string merges;
  int64_t seed = 1;
  int threads = 1;
  std::string output = "text";
};

void AddFlags(FlagSet& set, Flags& flags) {
  set.Add({.name = "checkpoint",
           .unit = "DIR",
           .help = "A checkpoint, a directory of checkpoints (the latest is "
                   "taken), or a GPT-2 or Llama model as Hugging Face lays "
                   "it out.",
           .is_required = true},
          &flags.checkpoint);
  set.Add({.name = "prompt",
           .unit = "TEXT",
           .help = "The beginning of the text.",
           .is_required = true},
          &flags.sample.prompt);
  set.Add({.name = "bytes",
           .help = "Bytes to write after the prompt.",
           .min = 1,
           .max = 1e6},
          &flags.sample.bytes);
  set.Add({.name = "temperature",
           .help = "Logits are divided by it; 0 takes the most probable token.",
           .min = 0,
           .max = 100},
          &flags.sample.temperature);
  set.Add(
      {.name = "top_k",
       .help = "Draw from this many of the most probable tokens; 0: from all.",
       .min = 0},
      &flags.sample.top_k);
  set.Add({.name = "seed", .help = "Another seed, another text."}, &flags.seed);
  set.Add({.name = "vocabulary",
           .unit = "FILE",
           .help = "GPT-2's vocab.json, for a model of its tokens."},
          &flags.vocabulary);
  set.Add({.name = "merges", .unit = "FILE", .help = "GPT-2's merges.txt."},
          &flags.merges);
  set.Add({.name = "threads",
           .help = "Threads that compute.",
           .min = 1,
           .max = 256},
          &flags.threads);
  set.Add({.name = "output",
           .help = "How to print it; json has fields of its own for the prompt "
                   "and the text.",
           .choices = {"text", "json"}},
          &flags.output);
}

// The fields that docs/json.md names.
std::string ToJson(const Flags& flags, const std::string& checkpoint,
                   const std::string& text) {
  const nlohmann::ordered_json sample = {{"checkpoint", checkpoint},
                                         {"prompt", flags.sample.prompt},
                                         {"text", text},
                                         {"seed", flags.seed}};
  return sample.dump(2, ' ', false, json::error_handler_t::replace);
}

// The checkpoint at `path`, or the latest complete one below it.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::NotFoundError(
        absl::StrCat("--checkpoint: there is no directory ", path));
  }
  if (fs::exists(fs::path(path) / kModelFile, error)) return path;
  ASSIGN_OR_RETURN(const std::vector<CheckpointSummary> checkpoints,
                   ListCheckpoints(path));
  std::string problem;  // of the latest
  for (const CheckpointSummary& checkpoint : checkpoints) {
    if (checkpoint.problem.ok()) return checkpoint.path;
    if (problem.empty())
      problem = absl::StrCat(": ", std::string(checkpoint.problem.message()));
  }
  return absl::NotFoundError(absl::StrCat(
      "--checkpoint: ", path, " holds no complete checkpoint", problem));
}

// The settings of a model that Hugging Face's config.json describes.
absl::StatusOr<ModelConfig> ReadModelOfHub(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kConfigFile);
  std::ifstream stream(file);
  if (!stream) {
    return absl::NotFoundError(
        absl::StrCat("--checkpoint: ", path, " has neither ", kManifestFile,
                     " nor ", kConfigFile, ", which tell what model it is"));
  }
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  absl::StatusOr<ModelConfig> config = ReadHuggingFaceConfig(text);
  if (config.ok()) return config;
  return Annotate(config.status(), file);
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path) {
  std::error_code error;
  if (!fs::exists(fs::path(path) / kManifestFile, error))
    return ReadModelOfHub(path);
  ASSIGN_OR_RETURN(const CheckpointManifest manifest, VerifyCheckpoint(path));
  return ModelConfig::FromCanonicalText(manifest.model_settings);
}

absl::Status Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string path, FindCheckpoint(flags.checkpoint));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(path));
  ThreadPool pool(flags.threads);
  ASSIGN_OR_RETURN(const std::unique_ptr<Model<float>> model,
                   CreateModel<float>(config, {.pool = pool}, 1));
  const ModelInput& input = model->input();
  if (input.shape.tokens == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--checkpoint: the model ", config.kind, " does not write text"));
  }
  if (flags.vocabulary.empty() != flags.merges.empty()) {
    return absl::InvalidArgumentError(
        "--vocabulary and --merges must be given together");
  }
  if (flags.vocabulary.empty() && input.vocabulary != kByteTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--checkpoint: the model has ", input.vocabulary,
        " tokens, which are not bytes; name its files with --vocabulary and "
        "--merges"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<TextSampler> sampler,
                   TextSampler::Create(flags.sample, flags.vocabulary,
                                       flags.merges, input.vocabulary));
  ASSIGN_OR_RETURN(const Plan plan,
                   Plan::Create(config.kind, model->specs(), {}));
  const size_t total = static_cast<size_t>(plan.total_elems());
  std::vector<float> parameters(total);
  std::vector<float> gradients(total);  // Bind wants them; never written
  RETURN_IF_ERROR(ImportParameters(path, plan, absl::MakeSpan(parameters)));
  RETURN_IF_ERROR(model->Bind(plan, parameters, absl::MakeSpan(gradients)));
  ASSIGN_OR_RETURN(
      const std::string text,
      sampler->Write(*model, static_cast<uint64_t>(flags.seed), CancelToken()));
  // Not printf: a model of bytes may write the byte 0.
  const std::string valid = ReplaceInvalidUtf8(text);
  const std::string shown = absl::StrCat(
      flags.output == "json" ? ToJson(flags, path, valid)
                             : absl::StrCat(flags.sample.prompt, valid),
      "\n");
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  return absl::OkStatus();
}

}  // namespace

int SampleCommand(int argc, char** argv) {
  Flags flags;
  FlagSet set("worker sample",
              "Lets a trained language model go on with a text, and prints "
              "both. The same seed gives the same text.");
  AddFlags(set, flags);
  if (const auto code = set.ParseCommandLine(argc, argv); code.has_value())
    return static_cast<int>(*code);
  const absl::Status status = Run(flags);
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return static_cast<int>(absl::IsNotFound(status) ? ExitCode::kUnreadable
                                                   : ExitCodeOf(status));
}

}  // namespace ringmaster
