// ps_bench: what a synchronous step through parameter servers costs among processes of this host; run.py calls it.
//
//   ps_bench --transport=shared_memory --bytes=67108864 --workers=2 --servers=1 --replicas=0
//
// A step: every worker pushes a gradient and pulls the parameters that the servers make of all of them (plain SGD), bucket
// by bucket. Nothing is computed meanwhile. Every element of every result is checked. Prints a line of JSON:
//   {"name": "tcp", "bytes": 67108864, "seconds": [the slowest worker's time of each step]}
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/config/flags.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/shard_host.h"
#include "common/parameter_server/shard_layout.h"
#include "common/parameter_server/shard_placement.h"
#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "common/transport/connect_peers.h"
#include "common/transport/shared_segment.h"
#include "ringmaster/v1/job.pb.h"
#include "tests/bench/allreduce_vs_peers/shared_page.h"
#include "worker/bench/forked_ranks.h"
#include "worker/bench/local_mesh.h"
#include "worker/member/job_runner.h"
#include "worker/member/shard_links.h"
#include "worker/parameter_server/shard_host.h"

namespace ringmaster {
namespace {

constexpr char kJob[] = "ps-bench";
constexpr int64_t kGeneration = 1;

struct Flags {
  std::string transport = "shared_memory";
  int64_t bytes = 64 << 20;
  int64_t bucket_bytes = 256 << 10;
  int workers = 2;
  int servers = 1;
  int connections = 1;
  int replicas = 0;
  int iterations = 20;
  int warmup = 3;

  [[nodiscard]] int hosts() const {
    return replicas > 0 ? std::max(2, servers) : servers;
  }
  [[nodiscard]] int shards() const { return servers * connections; }
  [[nodiscard]] int processes() const { return workers + hosts(); }
  [[nodiscard]] Transport best_transport() const {
    return transport == "tcp" ? Transport::kTcp : Transport::kSharedMemory;
  }
};

MonotonicTime PatientDeadline() {
  return Clock::Real().Now() + absl::Seconds(120);
}

// Places each bucket: shards and buckets have equal sizes, but the last.
struct Layout {
  std::vector<ShardDescription> shards;
  std::vector<ElemRange> buckets;  // of all shards
  std::vector<int> shard_of;       // by bucket
};

Layout LayoutOf(const Flags& flags) {
  const int64_t elems = flags.bytes / static_cast<int64_t>(sizeof(float));
  const int64_t bucket =
      flags.bucket_bytes / static_cast<int64_t>(sizeof(float));
  Layout layout;
  for (int i = 0; i < flags.shards(); ++i) {
    const int64_t begin = elems * i / flags.shards();
    const int64_t end = elems * (i + 1) / flags.shards();
    ShardDescription shard;
    shard.shard = i;
    shard.first_bucket = static_cast<int>(layout.buckets.size());
    shard.plan_hash = 1;
    shard.stretches = {{{0, end - begin}, false}};
    for (int64_t at = begin; at < end; at += bucket) {
      const int64_t count = std::min(bucket, end - at);
      shard.bucket_elems.push_back(count);
      layout.buckets.push_back({at, count});
      layout.shard_of.push_back(i);
    }
    layout.shards.push_back(std::move(shard));
  }
  return layout;
}

v1::TrainProgram ProgramOf(const Flags& flags) {
  v1::TrainProgram program;
  program.set_steps(flags.warmup + flags.iterations);
  program.set_global_batch(flags.workers);
  v1::OptimizerSpec& optimizer = *program.mutable_optimizer();
  program.mutable_collective()->set_connections(flags.connections);
  // A sum: each step takes the gradients off the parameters.
  optimizer.mutable_sgd()->set_learning_rate(1);
  v1::ParameterServerSpec& servers = *program.mutable_parameter_server();
  servers.set_servers(flags.servers);
  servers.set_replicas(flags.replicas);
  servers.set_consistency(v1::CONSISTENCY_BSP);
  return program;
}

ShardPlacements PlacementsOf(const Flags& flags,
                             const std::vector<Listener>& listeners) {
  ShardPlacements placements;
  for (int host = 0; host < flags.hosts(); ++host) {
    const int rank = flags.workers + host;
    placements.hosts.push_back(
        {rank, listeners[static_cast<size_t>(rank)].address().ToString()});
  }
  for (int shard = 0; shard < flags.shards(); ++shard) {
    const int host = shard % flags.servers;
    ShardPlacement placement;
    placement.primary_rank = flags.workers + host;
    if (flags.replicas > 0)
      placement.backup_rank = flags.workers + (host + 1) % flags.hosts();
    placements.shards.push_back(placement);
  }
  return placements;
}

struct World {
  const Flags& flags;
  const std::vector<Listener>& listeners;
  const ShardPlacements& placements;
  SharedPage& page;
};

absl::StatusOr<ShardLinks> Connect(const World& world, int rank,
                                   const ShardArenas& arenas) {
  RankAssignment assignment;
  assignment.rank = rank;
  assignment.world_size = world.flags.workers;
  assignment.shard_placements = world.placements;
  ASSIGN_OR_RETURN(const ShardLinkPlan plan,
                   PlanShardLinks(assignment, world.flags.connections, arenas));
  ConnectPeersConfig config;
  config.job_id = kJob;
  config.generation = kGeneration;
  config.rank = rank;
  config.secret = "sixteen bytes or more";
  config.deadline = PatientDeadline();
  config.best_transport = world.flags.best_transport();
  config.clock = &Clock::Real();
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Channel>> channels,
                   ConnectPeers(world.listeners[static_cast<size_t>(rank)],
                                config, plan.connections, nullptr));
  return AssembleShardLinks(rank, plan, std::move(channels));
}

absl::Status RunHost(const World& world, int rank) {
  const std::unique_ptr<ShardHost> host = MakeShardHost(Clock::Real());
  RETURN_IF_ERROR(host->Prepare(
      ProgramOf(world.flags),
      {kJob, kGeneration, rank, world.flags.workers, 0, world.placements}));
  ASSIGN_OR_RETURN(
      ShardLinks links,
      Connect(world, rank, {.parameters = host->shared_parameters()}));
  const CancelToken cancel;
  return host->Run(std::move(links.host), cancel).status();
}

// One worker: pushes all, waits for all.
class Worker final : public MessageLoop::Handler {
 public:
  // `gradients` is shared with the servers, and outlives the worker.
  Worker(const World& world, int rank, const SharedSegment& gradients,
         std::vector<MessagePeer> servers)
      : world_(world),
        rank_(rank),
        layout_(LayoutOf(world.flags)),
        gradients_(gradients),
        parameters_(static_cast<size_t>(world.flags.bytes) / sizeof(float)),
        loop_({JobHash(kJob), kGeneration, rank}, std::move(servers), cancel_,
              Clock::Real()) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Begin());
    const Flags& flags = world_.flags;
    float taken = 0;
    for (int i = 0; i < flags.warmup + flags.iterations; ++i) {
      std::fill_n(gradient(), parameters_.size(),
                  static_cast<float>(i % 8 + 1 + rank_));
      AwaitAll(world_.page, flags.workers);
      const auto begin = std::chrono::steady_clock::now();
      RETURN_IF_ERROR(Step(i + 1));
      const std::chrono::duration<double> seconds =
          std::chrono::steady_clock::now() - begin;
      if (i >= flags.warmup) {
        world_.page.seconds[static_cast<size_t>(rank_)]
                           [static_cast<size_t>(i - flags.warmup)] =
            seconds.count();
      }
      for (int rank = 0; rank < flags.workers; ++rank)
        taken += static_cast<float>(i % 8 + 1 + rank);
      RETURN_IF_ERROR(Check(i, -taken));
    }
    return End();
  }

  absl::StatusOr<std::optional<MessageSink>> OnMessage(
      int, const ShardMessage& message) override {
    if (message.op != ShardOp::kValues) {
      return absl::FailedPreconditionError(
          absl::StrCat("unexpected ", DescribeShardMessage(message)));
    }
    const ElemRange range =
        layout_.buckets[static_cast<size_t>(message.bucket)];
    return MessageSink{
        reinterpret_cast<std::byte*>(parameters_.data() + range.begin)};
  }
  absl::Status OnComplete(int, const ShardMessage&) override {
    ++arrived_;
    return absl::OkStatus();
  }

 private:
  // Shards of servers, lane after lane; and so are connections.
  [[nodiscard]] int PeerOf(int shard) const {
    const int servers = world_.flags.servers;
    return shard / servers * world_.flags.hosts() + shard % servers;
  }
  float* gradient() { return reinterpret_cast<float*>(gradients_.at()); }

  absl::Status Begin() {
    for (const ShardDescription& shard : layout_.shards) {
      ShardMessage open;
      open.op = ShardOp::kOpen;
      open.shard = shard.shard;
      const std::vector<std::byte> text = Encode(shard);
      loop_.SendCopy(PeerOf(shard.shard), open,
                     {text.data(), static_cast<int64_t>(text.size()),
                      DType::kUint8, DType::kUint8});
    }
    if (rank_ == 0) SendAll(ShardOp::kLoad, 0, parameters_.data());
    SendAll(ShardOp::kPull, 0, nullptr);
    return AwaitAllValues();
  }

  absl::Status Step(int64_t step) {
    SendAll(ShardOp::kPush, step, gradient());
    return AwaitAllValues();
  }

  absl::Status End() {
    for (int host = 0; host < loop_.peers(); ++host) {
      ShardMessage done;
      done.op = ShardOp::kDone;
      done.step = world_.flags.warmup + world_.flags.iterations;
      loop_.Send(host, done);
      loop_.Leave(host);
    }
    for (int host = 0; host < loop_.peers(); ++host) {
      while (!loop_.IsFlushed(host))
        RETURN_IF_ERROR(loop_.PollOnce(*this, PatientDeadline()));
    }
    return absl::OkStatus();
  }

  void SendAll(ShardOp op, int64_t step, const float* elements) {
    for (size_t i = 0; i < layout_.buckets.size(); ++i) {
      ShardMessage message;
      message.op = op;
      message.shard = layout_.shard_of[i];
      message.bucket = static_cast<int>(i);
      message.step = step;
      MessageElements following;
      if (elements != nullptr) {
        following.data = reinterpret_cast<const std::byte*>(
            elements + layout_.buckets[i].begin);
        following.count = layout_.buckets[i].count;
      }
      loop_.Send(PeerOf(message.shard), message, following);
    }
    arrived_ = 0;
  }

  absl::Status AwaitAllValues() {
    const MonotonicTime deadline = PatientDeadline();
    while (arrived_ < layout_.buckets.size())
      RETURN_IF_ERROR(loop_.PollOnce(*this, deadline));
    return absl::OkStatus();
  }

  absl::Status Check(int iteration, float expected) const {
    const auto wrong =
        std::find_if(parameters_.begin(), parameters_.end(),
                     [expected](float value) { return value != expected; });
    if (wrong == parameters_.end()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(
        "step ", iteration + 1, ": element ", wrong - parameters_.begin(),
        " is ", *wrong, " in place of ", expected));
  }

  const World& world_;
  const int rank_;
  const Layout layout_;
  const SharedSegment& gradients_;
  std::vector<float> parameters_;
  const CancelToken cancel_;
  MessageLoop loop_;
  size_t arrived_ = 0;
};

absl::Status RunWorker(const World& world, int rank) {
  ASSIGN_OR_RETURN(
      const SharedSegment gradients,
      SharedSegment::Create("ps_bench gradients",
                            static_cast<size_t>(world.flags.bytes)));
  ASSIGN_OR_RETURN(ShardLinks links,
                   Connect(world, rank, {.gradients = &gradients}));
  Worker worker(world, rank, gradients, std::move(links.hosts));
  return worker.Run();
}

void Print(const World& world) {
  std::printf("{\"name\": \"%s\", \"bytes\": %lld, \"seconds\": [",
              world.flags.transport.c_str(),
              static_cast<long long>(world.flags.bytes));
  for (int i = 0; i < world.flags.iterations; ++i) {
    double slowest = 0;
    for (int rank = 0; rank < world.flags.workers; ++rank) {
      slowest = std::max(slowest, world.page.seconds[static_cast<size_t>(rank)]
                                                    [static_cast<size_t>(i)]);
    }
    std::printf("%s%.9f", i == 0 ? "" : ", ", slowest);
  }
  std::printf("]}\n");
}

absl::Status Run(const Flags& flags) {
  SharedPage* const page = MapSharedPage("");
  if (page == nullptr) return absl::UnavailableError("no memory for a page");
  ASSIGN_OR_RETURN(const std::vector<Listener> listeners,
                   ListenForRanks(flags.processes()));
  const ShardPlacements placements = PlacementsOf(flags, listeners);
  const World world{flags, listeners, placements, *page};
  std::fflush(stdout);
  ASSIGN_OR_RETURN(const std::unique_ptr<ForkedRanks> ranks,
                   ForkedRanks::Start(flags.processes(),
                                      [&](int rank, const ForkedRanks::Send&) {
                                        return rank < flags.workers
                                                   ? RunWorker(world, rank)
                                                   : RunHost(world, rank);
                                      }));
  RETURN_IF_ERROR(ranks->Next(/*stop_fd=*/-1).status());
  Print(world);
  return absl::OkStatus();
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) {
  ringmaster::Flags flags;
  ringmaster::FlagSet set(
      "ps_bench", "Measures a step through parameter servers on this host.");
  set.Add({.name = "transport",
           .help = "What the processes are connected over.",
           .choices = {"tcp", "shared_memory"}},
          &flags.transport);
  set.Add({.name = "bytes", .help = "Size of the parameters.", .min = 4},
          &flags.bytes);
  set.Add({.name = "bucket_bytes", .help = "Size of a bucket.", .min = 4},
          &flags.bucket_bytes);
  set.Add({.name = "workers", .help = "Workers.", .min = 1, .max = 8},
          &flags.workers);
  set.Add({.name = "servers",
           .help = "Servers, each with shards of its own.",
           .min = 1,
           .max = 8},
          &flags.servers);
  set.Add({.name = "connections",
           .help = "Of each worker with each server, each with a thread there.",
           .min = 1,
           .max = 8},
          &flags.connections);
  set.Add({.name = "replicas",
           .help = "Further copies of each shard; with one server, on a second "
                   "one that has nothing else to do.",
           .min = 0,
           .max = 1},
          &flags.replicas);
  set.Add({.name = "iterations",
           .help = "Steps that are measured.",
           .min = 1,
           .max = ringmaster::kMaxBenchCalls},
          &flags.iterations);
  set.Add({.name = "warmup", .help = "Steps before them.", .min = 0},
          &flags.warmup);
  if (const auto code = set.ParseCommandLine(argc, argv))
    return static_cast<int>(*code);
  const absl::Status status = ringmaster::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "ps_bench: %s\n", status.ToString().c_str());
  return 1;
}
