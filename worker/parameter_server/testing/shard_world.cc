#include "worker/parameter_server/testing/shard_world.h"

#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/parameter_server/testing/channel_pair.h"
#include "common/parameter_server/update_rules.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/handshake.h"
#include "worker/parameter_server/shard_host.h"

namespace ringmaster {
namespace {

constexpr char kJob[] = "job-1";

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(30); }

MessageElements ElementsOf(const float* elems, int64_t count) {
  return {.data = reinterpret_cast<const std::byte*>(elems), .count = count};
}

}  // namespace

TestWorker::TestWorker(int rank, int64_t generation,
                       std::vector<ShardDescription> shards,
                       std::vector<int> peer_of_shard,
                       std::vector<MessagePeer> holders)
    : shards_(std::move(shards)),
      peer_of_shard_(std::move(peer_of_shard)),
      loop_({JobHash(kJob), generation, rank}, std::move(holders), cancel_,
            Clock::Real()) {
  int64_t begin = 0;
  for (const ShardDescription& shard : shards_) {
    for (const int64_t elems : shard.bucket_elems) {
      places_.push_back({shard.shard, begin, elems});
      begin += elems;
    }
  }
  parameters_.resize(static_cast<size_t>(begin));
}

int TestWorker::buckets() const { return static_cast<int>(places_.size()); }

absl::Status TestWorker::Await(const std::function<bool()>& is_done) {
  const MonotonicTime deadline = Soon();
  while (!is_done()) RETURN_IF_ERROR(loop_.PollOnce(*this, deadline));
  return absl::OkStatus();
}

absl::Status TestWorker::Open() {
  for (const ShardDescription& shard : shards_) {
    ShardMessage open;
    open.op = ShardOp::kOpen;
    open.shard = shard.shard;
    const std::vector<std::byte> bytes = Encode(shard);
    loop_.SendCopy(peer_of_shard_[static_cast<size_t>(shard.shard)], open,
                   {.data = bytes.data(),
                    .count = static_cast<int64_t>(bytes.size()),
                    .dtype = DType::kUint8});
  }
  return Flush();
}

void TestWorker::SendRaw(const ShardMessage& message,
                         const MessageElements& elements) {
  loop_.SendCopy(peer_of_shard_[static_cast<size_t>(message.shard)], message,
                 elements);
}

void TestWorker::SendRawOnLaneOf(int shard, const ShardMessage& message) {
  loop_.Send(peer_of_shard_[static_cast<size_t>(shard)], message);
}

void TestWorker::Load(StatePart part, int64_t step, std::vector<float> elems) {
  for (int bucket = 0; bucket < buckets(); ++bucket) {
    ShardMessage load;
    load.op = ShardOp::kLoad;
    load.part = part;
    load.shard = PlaceOf(bucket).shard;
    load.bucket = bucket;
    load.step = step;
    SendRaw(load, ElementsOf(elems.data() + PlaceOf(bucket).begin,
                             PlaceOf(bucket).count));
  }
}

absl::StatusOr<std::vector<float>> TestWorker::Pull(StatePart part,
                                                    int64_t step) {
  parts_[part].resize(parameters_.size());
  for (int bucket = 0; bucket < buckets(); ++bucket) {
    ShardMessage pull;
    pull.op = ShardOp::kPull;
    pull.part = part;
    pull.shard = PlaceOf(bucket).shard;
    pull.bucket = bucket;
    pull.step = step;
    SendRaw(pull, {});
  }
  RETURN_IF_ERROR(AwaitValues(buckets()));
  return part == StatePart::kParameters ? parameters_ : parts_[part];
}

void TestWorker::Push(int bucket, int64_t step,
                      const std::vector<float>& gradient, DType wire) {
  ShardMessage push;
  push.op = ShardOp::kPush;
  push.shard = PlaceOf(bucket).shard;
  push.bucket = bucket;
  push.step = step;
  MessageElements elements = ElementsOf(gradient.data() + PlaceOf(bucket).begin,
                                        PlaceOf(bucket).count);
  elements.wire = wire;
  SendRaw(push, elements);
}

void TestWorker::PushAll(int64_t step, const std::vector<float>& gradient,
                         DType wire) {
  for (int bucket = 0; bucket < buckets(); ++bucket)
    Push(bucket, step, gradient, wire);
}

absl::Status TestWorker::AwaitValues(int count) {
  RETURN_IF_ERROR(Await([&] { return values_ >= count; }));
  values_ -= count;
  return absl::OkStatus();
}

absl::Status TestWorker::AwaitNorms(int count) {
  RETURN_IF_ERROR(Await([&] { return norms_ >= count; }));
  norms_ -= count;
  return absl::OkStatus();
}

void TestWorker::Scale(int shard, int64_t step, double factor) {
  ShardMessage scale;
  scale.op = ShardOp::kScale;
  scale.shard = shard;
  scale.step = step;
  scale.value = factor;
  SendRaw(scale, {});
}

absl::Status TestWorker::Flush() {
  return Await([this] {
    for (int peer = 0; peer < loop_.peers(); ++peer) {
      if (!loop_.IsFlushed(peer)) return false;
    }
    return true;
  });
}

absl::Status TestWorker::Poll() {
  loop_.Wake();
  return loop_.PollOnce(*this, Soon());
}

absl::Status TestWorker::Finish(DoneKind how) {
  for (int peer = 0; peer < loop_.peers(); ++peer) {
    ShardMessage done;
    done.op = ShardOp::kDone;
    done.done = how;
    loop_.Send(peer, done);
    loop_.Leave(peer);
  }
  return Flush();
}

absl::StatusOr<std::optional<MessageSink>> TestWorker::OnMessage(
    int /*peer*/, const ShardMessage& message) {
  if (message.op == ShardOp::kNorm) return MessageSink();
  if (message.op != ShardOp::kValues)
    return absl::FailedPreconditionError(DescribeShardMessage(message));
  std::vector<float>& into = message.part == StatePart::kParameters
                                 ? parameters_
                                 : parts_[message.part];
  return MessageSink{reinterpret_cast<std::byte*>(
      into.data() + PlaceOf(message.bucket).begin)};
}

absl::Status TestWorker::OnComplete(int /*peer*/, const ShardMessage& message) {
  received_.push_back(message);
  ++(message.op == ShardOp::kNorm ? norms_ : values_);
  return absl::OkStatus();
}

ShardWorld::ShardWorld(Options options) : options_(std::move(options)) {
  for (int i = 0; i < options_.hosts; ++i) {
    hosts_.push_back(MakeShardHost(Clock::Real()));
    ends_.emplace_back(absl::UnknownError("it has not run"));
  }
}

ShardWorld::~ShardWorld() { End(); }

void ShardWorld::ReplaceHost(int host) {
  hosts_[static_cast<size_t>(host)] = MakeShardHost(Clock::Real());
}

absl::Status ShardWorld::Begin(int64_t generation, int64_t resume_step,
                               std::vector<ShardPlacement> placements) {
  End();
  cancel_ = std::make_unique<CancelToken>();
  const int workers = options_.workers;
  ShardHostAssignment assignment = {kJob,    generation,  0,
                                    workers, resume_step, {{}, placements}};
  for (int i = 0; i < options_.hosts; ++i)
    assignment.placements.hosts.push_back({workers + i, "unused"});
  for (int i = 0; i < options_.hosts; ++i) {
    assignment.rank = workers + i;
    RETURN_IF_ERROR(host(i).Prepare(options_.program, assignment));
  }
  const int lanes = LanesOf(options_.program);
  std::vector<std::vector<ShardHostLinks>> links(hosts_.size());
  for (auto& of_host : links) of_host.resize(static_cast<size_t>(lanes));
  workers_.clear();
  for (int rank = 0; rank < workers; ++rank) {
    std::vector<MessagePeer> holders;
    for (int peer = 0; peer < options_.hosts * lanes; ++peer) {
      const int i = peer % options_.hosts;
      const int lane = peer / options_.hosts;
      ChannelPair pair =
          MakeChannelPair(options_.transport, {rank, nullptr},
                          {workers + i, host(i).shared_parameters()});
      holders.push_back({workers + i, std::move(pair.first), lane});
      links[static_cast<size_t>(i)][static_cast<size_t>(lane)]
          .workers.push_back({rank, std::move(pair.second), lane});
    }
    const auto shards = static_cast<int>(placements.size());
    std::vector<int> peer_of_shard;
    for (int shard = 0; shard < shards; ++shard) {
      peer_of_shard.push_back(
          placements[static_cast<size_t>(shard)].primary_rank - workers +
          LaneOfShard(shard, shards, lanes) * options_.hosts);
    }
    workers_.push_back(std::make_unique<TestWorker>(
        rank, generation, options_.shards, std::move(peer_of_shard),
        std::move(holders)));
  }
  std::set<std::tuple<int, int, int>> copies;  // lane, who gives, whom
  for (size_t shard = 0; shard < placements.size(); ++shard) {
    const ShardPlacement& each = placements[shard];
    const int lane = LaneOfShard(static_cast<int>(shard),
                                 static_cast<int>(placements.size()), lanes);
    copies.insert({lane, each.primary_rank, each.backup_rank});
    copies.insert({lane, each.source_rank, each.primary_rank});
    copies.insert({lane, each.source_rank, each.backup_rank});
  }
  for (const auto& [lane, giver, taker] : copies) {
    if (giver < 0 || taker < 0 || giver == taker) continue;
    ChannelPair pair =
        MakeChannelPair(options_.transport, {giver, nullptr}, {taker, nullptr});
    const auto links_of =
        [&, at = static_cast<size_t>(lane) ](int rank) -> auto& {
      return links[static_cast<size_t>(rank - workers)][at];
    };
    links_of(giver).backups.push_back({taker, std::move(pair.first)});
    links_of(taker).primaries.push_back({giver, std::move(pair.second)});
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    threads_.emplace_back([this, i, link = std::move(links[i])]() mutable {
      ends_[i] = hosts_[i]->Run(std::move(link), *cancel_);
    });
  }
  return absl::OkStatus();
}

void ShardWorld::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ShardWorld::End() {
  if (cancel_ != nullptr) cancel_->Cancel("the test is over");
  Join();
}

}  // namespace ringmaster
