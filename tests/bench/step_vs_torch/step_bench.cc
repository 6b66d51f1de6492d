// Seconds per training step of our engine on this host, for run.py.
//
//   step_bench --case=gpt2_124m --ranks=2 --precision=fp32 --steps=8
//
// A rank is a process with one training thread, kept on one core as the peer's
// is: the whole trainer, its data plane over TCP included, without a
// coordinator. Prints one JSON object a line, from rank 0:
//   {"step", "seconds", "cpu_seconds", "tokens", "phases": {...}}
//                       each step; tokens are those of all ranks together,
//                       cpu_seconds the rank's mean over the run
//   {"start_seconds"}   from the start of the program to the end of step 1
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/config/flags.h"
#include "common/config/yaml_to_proto.h"
#include "common/status/check.h"
#include "common/status/exit_code.h"
#include "common/transport/tcp.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/train/step/job_trainer.h"

namespace ringmaster {
namespace {

struct Case {
  // In YAML.
  const char* model;
  int samples;  // of a rank
  int tokens;   // of a sample
};

// Those of torch_ddp.py.
const std::map<std::string, Case>& Cases() {
  static const auto& cases = *new std::map<std::string, Case>{
      {"gpt2_124m", {"{gpt: {preset: gpt2, sample_tokens: 64}}", 4, 64}},
      {"gpt_14m",
       {"{gpt: {vocabulary: 8192, window: 1024, layers: 6, heads: 6, width: "
        "384, sample_tokens: 128}}",
        8, 128}},
      {"llama_160m",
       {"{llama: {preset: llama-160m, sample_tokens: 64}}", 4, 64}},
      {"bert_base",
       {"{bert: {preset: bert-base, dropout: 0, sample_tokens: 128}}", 4, 128}},
  };
  return cases;
}

struct Flags {
  std::string name = "gpt_14m";
  int ranks = 2;
  std::string precision = "fp32";
  int64_t steps = 8;
  int64_t bucket_bytes = 4 << 20;
};

v1::JobSpec MakeJob(const Flags& flags) {
  const Case& shape = Cases().at(flags.name);
  v1::JobSpec job;
  v1::TrainProgram& program = *job.mutable_train();
  const absl::Status model =
      YamlToProto(shape.model, "case", *program.mutable_model());
  RM_CHECK(model.ok(), "a case is a model");
  v1::SyntheticSource& data = *program.mutable_data()->mutable_synthetic();
  data.set_samples(1 << 20);
  // The evaluation after the last step is not what is timed.
  data.set_eval_fraction(8.0 / (1 << 20));
  v1::AdamwSpec* const adamw = program.mutable_optimizer()->mutable_adamw();
  adamw->set_learning_rate(1e-4);
  adamw->set_beta1(0.9);
  adamw->set_beta2(0.999);
  adamw->set_epsilon(1e-8);
  adamw->set_weight_decay(0.01);
  program.set_steps(flags.steps);
  program.set_global_batch(int64_t{shape.samples} * flags.ranks);
  program.set_seed(1);
  program.set_bucket_bytes(flags.bucket_bytes);
  program.set_precision(flags.precision == "bf16" ? v1::PRECISION_BFLOAT16
                                                  : v1::PRECISION_FLOAT32);
  return job;
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Keeps this process on the core that is `rank`'s among those it may use.
void Pin(int rank) {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(cores[static_cast<size_t>(rank) % cores.size()], &own);
  sched_setaffinity(0, sizeof(own), &own);
}

void Print(const JobRunner& trainer, const Flags& flags, MonotonicTime begin,
           double cpu_seconds) {
  const Case& shape = Cases().at(flags.name);
  std::map<int64_t, std::map<std::string, absl::Duration>> phases;
  std::map<int64_t, MonotonicTime> starts;
  std::map<int64_t, MonotonicTime> ends;
  for (const TraceSpan& span : trainer.trace().Spans()) {
    if (std::string(span.track) != "compute" ||
        std::string(span.name) == "evaluate")
      continue;
    phases[span.step][span.name] += span.end - span.start;
    if (!starts.contains(span.step)) starts[span.step] = span.start;
    ends[span.step] = span.end;
  }
  for (int64_t step = 1; step <= flags.steps; ++step) {
    std::string text;
    for (const auto& [name, duration] : phases[step]) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", name,
                      "\": ", absl::ToDoubleSeconds(duration));
    }
    std::printf(
        "{\"step\": %lld, \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
        "\"tokens\": %d, \"phases\": {%s}}\n",
        static_cast<long long>(step),
        absl::ToDoubleSeconds(ends[step] - starts[step]),
        cpu_seconds / static_cast<double>(flags.steps),
        shape.samples * shape.tokens * flags.ranks, text.c_str());
  }
  std::printf("{\"start_seconds\": %.3f}\n",
              absl::ToDoubleSeconds(ends[1] - begin));
}

int RunRank(const Flags& flags, int rank,
            const std::vector<Listener>& listeners, MonotonicTime begin) {
  Pin(rank);
  Clock& clock = Clock::Real();
  const std::unique_ptr<JobRunner> trainer =
      MakeJobTrainer(clock, listeners[static_cast<size_t>(rank)]);
  RankAssignment assignment;
  assignment.generation = 1;
  assignment.job_id = "bench";
  assignment.rank = assignment.data_index = assignment.local_rank = rank;
  assignment.world_size = assignment.local_world_size = flags.ranks;
  assignment.ranks_per_host = {flags.ranks};
  for (int peer = 0; peer < flags.ranks; ++peer) {
    assignment.peers.push_back(
        {.rank = peer,
         .address = absl::StrCat("127.0.0.1:",
                                 listeners[static_cast<size_t>(peer)].port())});
  }
  assignment.secret = "the same for all ranks";
  const absl::Status prepared =
      trainer->Prepare(MakeJob(flags), assignment).status();
  if (!prepared.ok()) {
    std::fprintf(stderr, "error: %s\n", prepared.ToString().c_str());
    return static_cast<int>(ExitCodeOf(prepared));
  }
  const double cpu_before = CpuSeconds();
  const RunOutcome outcome = trainer->Run();
  if (outcome.kind != RunOutcome::Kind::kFinished) {
    std::fprintf(stderr, "error: %s\n", outcome.status.ToString().c_str());
    return static_cast<int>(ExitCode::kInternal);
  }
  if (rank == 0) Print(*trainer, flags, begin, CpuSeconds() - cpu_before);
  std::fflush(stdout);
  return 0;
}

int Main(int argc, char** argv) {
  const MonotonicTime begin = Clock::Real().Now();
  Flags flags;
  FlagSet set("step_bench", "Times our training step on this host.");
  std::vector<std::string> names;
  for (const auto& [name, shape] : Cases()) names.push_back(name);
  set.Add({.name = "case", .choices = names}, &flags.name);
  set.Add({.name = "ranks", .min = 1, .max = 64}, &flags.ranks);
  set.Add({.name = "precision", .choices = {"fp32", "bf16"}}, &flags.precision);
  set.Add({.name = "steps", .min = 1, .max = 1000}, &flags.steps);
  set.Add({.name = "bucket_bytes", .min = 1024}, &flags.bucket_bytes);
  if (const auto code = set.ParseCommandLine(argc, argv); code.has_value())
    return static_cast<int>(*code);
  std::vector<Listener> listeners;
  for (int rank = 0; rank < flags.ranks; ++rank)
    listeners.push_back(Listener::Listen("127.0.0.1:0").value());
  for (int rank = 0; rank < flags.ranks; ++rank) {
    if (fork() == 0) _exit(RunRank(flags, rank, listeners, begin));
  }
  int worst = 0;
  for (int rank = 0; rank < flags.ranks; ++rank) {
    int status = 0;
    wait(&status);
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  return worst;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
