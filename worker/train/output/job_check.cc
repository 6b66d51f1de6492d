#include "worker/train/output/job_check.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/config/flags.h"
#include "common/files/file_flags.h"
#include "common/files/file_roots.h"
#include "common/machine/memory_limits.h"
#include "common/plan/plan.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/thread_pool.h"
#include "nlohmann/json.hpp"
#include "worker/data/dataset.h"
#include "worker/nn/model_registry.h"
#include "worker/train/output/text_sampler.h"
#include "worker/train/state/job_inputs.h"
#include "worker/train/state/job_paths.h"
#include "worker/train/state/memory_check.h"
#include "worker/train/state/program_config.h"

namespace ringmaster {
namespace {

// All that a model tells before it has buffers.
struct Outline {
  ModelInput input;
  Plan plan;
};

absl::StatusOr<Outline> OutlineOf(const ProgramConfig& config,
                                  ThreadPool& pool) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Model<float>> model,
      CreateModel<float>(config.model,
                         {.pool = pool, .precision = config.precision}, 0));
  PlanOptions options;
  options.bucket_bytes = config.program.bucket_bytes();
  ASSIGN_OR_RETURN(Plan plan,
                   Plan::Create(config.model.kind, model->specs(), options));
  return Outline{model->input(), std::move(plan)};
}

PartCheck Part(std::string part, const absl::StatusOr<std::string>& found) {
  return {.part = std::move(part),
          .found = found.ok() ? *found : "",
          .status = found.status()};
}

absl::StatusOr<std::string> CheckDataset(const ProgramConfig& config,
                                         const ModelInput& input) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset,
                   OpenDataset(config, input));
  std::string found =
      absl::StrCat(dataset->size(Split::kTrain), " samples to train on, ",
                   dataset->size(Split::kHeldOut), " held out");
  if (const int64_t skipped = dataset->skipped_samples(); skipped > 0)
    absl::StrAppend(&found, ", ", skipped, " skipped as not valid");
  return found;
}

absl::StatusOr<std::string> CheckRankMemory(const ProgramConfig& config,
                                            const Plan& plan, ThreadPool& pool,
                                            const JobCheckOptions& options) {
  const int64_t arena_bytes =
      plan.total_elems() * static_cast<int64_t>(sizeof(float));
  const auto needs = [&](int64_t activation_bytes) {
    return MemoryNeedsOf(config, {.arena_bytes = arena_bytes,
                                  .activation_bytes = activation_bytes,
                                  .ranks_on_host = options.ranks_on_host,
                                  .world_size = options.world_size,
                                  .has_accelerator = options.has_accelerator});
  };
  const int64_t limit = MemoryLimitBytes();
  // Before any is allocated.
  RETURN_IF_ERROR(CheckMemory(needs(0), options.ranks_on_host, limit));
  int64_t activation_bytes = 0;
  if (!options.has_accelerator) {
    int64_t samples = config.PartOf(0, options.world_size).count;
    if (config.program.micro_batch() > 0)
      samples = std::min(samples, config.program.micro_batch());
    ASSIGN_OR_RETURN(
        const std::unique_ptr<Model<float>> model,
        CreateModel<float>(config.model,
                           {.pool = pool, .precision = config.precision},
                           samples));
    activation_bytes = model->buffer_bytes();
  }
  RETURN_IF_ERROR(
      CheckMemory(needs(activation_bytes), options.ranks_on_host, limit));
  std::string found =
      absl::StrCat("a rank needs ", MemoryText(needs(activation_bytes)));
  if (limit >= 0) {
    absl::StrAppend(&found, "; ", options.ranks_on_host,
                    options.ranks_on_host == 1 ? " rank has " : " ranks share ",
                    limit / 1'000'000, " MB on this host");
  }
  return found;
}

absl::StatusOr<std::string> CheckInitialParameters(const ProgramConfig& config,
                                                   const Plan& plan) {
  std::vector<float> parameters(static_cast<size_t>(plan.total_elems()));
  RETURN_IF_ERROR(
      ReadInitialParameters(config, plan, absl::MakeSpan(parameters)));
  return absl::StrCat(config.program.initial_parameters(),
                      " has all tensors of the model");
}

absl::StatusOr<std::string> CheckSampler(const ProgramConfig& config,
                                         const ModelInput& input) {
  RETURN_IF_ERROR(TextSampler::OfJob(config, input).status());
  return config.data.vocabulary_path.empty()
             ? std::string("tokens are bytes")
             : absl::StrCat("tokens are those of ",
                            config.data.vocabulary_path);
}

absl::Status RunCheck(const JobCheckOptions& options) {
  const std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  v1::JobSpec spec;
  if (!spec.ParseFromString(bytes) || !spec.has_train()) {
    return absl::InvalidArgumentError(
        "standard input holds no JobSpec that trains");
  }
  nlohmann::json parts = nlohmann::json::array();
  for (const PartCheck& part : CheckJob(spec.train(), options)) {
    parts.push_back({{"part", part.part},
                     {"found", part.found},
                     {"error", std::string(part.status.message())},
                     {"exit_code", static_cast<int>(ExitCodeOf(part.status))}});
  }
  const std::string text =
      parts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
  return absl::OkStatus();
}

}  // namespace

std::vector<PartCheck> CheckJob(const v1::TrainProgram& program,
                                const JobCheckOptions& options) {
  const absl::StatusOr<ProgramConfig> config =
      ParseProgram(program, options.has_accelerator ? Precision::kBFloat16
                                                    : Precision::kFloat32);
  if (!config.ok()) return {Part("job", config.status())};
  if (const absl::Status status = CheckPaths(config->program, ProcessFiles());
      !status.ok())
    return {Part("files", status)};
  ThreadPool pool(1);
  const absl::StatusOr<Outline> outline = OutlineOf(*config, pool);
  if (!outline.ok()) return {Part("job", outline.status())};
  std::vector<PartCheck> parts = {
      Part("data", CheckDataset(*config, outline->input)),
      Part("memory", CheckRankMemory(*config, outline->plan, pool, options))};
  if (!config->program.initial_parameters().empty() &&
      parts.back().status.ok()) {
    parts.push_back(Part("initial parameters",
                         CheckInitialParameters(*config, outline->plan)));
  }
  if (!config->program.sample().prompt().empty())
    parts.push_back(Part("sample", CheckSampler(*config, outline->input)));
  return parts;
}

int CheckCommand(int argc, char** argv) {
  JobCheckOptions options;
  FlagSet set("worker check",
              "Says what a job, a JobSpec's bytes on standard input, needs on "
              "this host; `ringctl doctor JOB_FILE` runs it.");
  set.Add({.name = "world_size", .help = "Ranks of the job.", .min = 1},
          &options.world_size);
  set.Add({.name = "ranks_on_host", .help = "Those on this host.", .min = 1},
          &options.ranks_on_host);
  set.Add({.name = "on_gpu", .help = "They compute on GPUs."},
          &options.has_accelerator);
  FileRoots::Directories directories;
  AddFileFlags(set, directories);
  if (const auto code = set.ParseCommandLine(argc, argv); code.has_value())
    return static_cast<int>(*code);
  // Whoever names no worker's roots asks with rights of their own.
  if (directories.read.empty() && directories.write.empty())
    directories = {.read = {"/"}, .write = {"/"}};
  absl::StatusOr<FileRoots> files = FileRoots::Open(directories);
  if (files.ok()) LimitProcessFiles(*std::move(files));
  const absl::Status status = files.ok() ? RunCheck(options) : files.status();
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace ringmaster
