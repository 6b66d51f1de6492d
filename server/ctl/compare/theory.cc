#include "server/ctl/compare/theory.h"

#include <algorithm>
#include <cmath>

namespace ringmaster::ctl {
namespace {

bool Is(const Mode& mode, std::string_view name) { return mode.name == name; }

// Hosts that `workers` fill.
double HostsOf(int workers, int ranks_per_host) {
  return std::ceil(static_cast<double>(workers) / ranks_per_host);
}

// 2(n-1)/n.
double RingShare(double n) { return n > 0 ? 2 * (n - 1) / n : 0; }

std::optional<NodeBytes> AllReduceBytes(const Mode& mode, int workers,
                                        int ranks_per_host, double bytes) {
  const double n = workers;
  if (Is(mode, "ring") || Is(mode, "direct") || Is(mode, "halving_doubling")) {
    return NodeBytes{bytes * RingShare(n), bytes * RingShare(n)};
  }
  if (Is(mode, "exchange")) return NodeBytes{bytes * (n - 1), bytes * (n - 1)};
  if (Is(mode, "gather_broadcast")) return NodeBytes{bytes, bytes * (n - 1)};
  if (Is(mode, "hierarchical")) {
    const double inside = std::min(ranks_per_host, workers);
    const double hosts = HostsOf(workers, ranks_per_host);
    // Inside the host whole, between hosts the part that a rank owns.
    const double sent = bytes * (RingShare(inside) + RingShare(hosts) / inside);
    return NodeBytes{sent, sent};
  }
  return std::nullopt;
}

// Messages that follow one another, of a bucket.
double Messages(const Mode& mode, int workers, int ranks_per_host) {
  if (mode.is_parameter_server()) return 2;
  if (Is(mode, "gather_broadcast") || Is(mode, "direct")) return 2;
  if (Is(mode, "exchange")) return 1;
  if (Is(mode, "halving_doubling")) return 2 * std::ceil(std::log2(workers));
  if (Is(mode, "hierarchical")) {
    const double inside = std::min(ranks_per_host, workers) > 1 ? 2 : 0;
    return 2 * (HostsOf(workers, ranks_per_host) - 1) + inside;
  }
  return 2.0 * (workers - 1);
}

// When a bucket is ready, in seconds after the first one is.
double ReadyAt(const StepShape& shape, size_t bucket) {
  return shape.backward_seconds * (shape.ready[bucket] - shape.ready.front());
}

double OneAfterTheOther(const Mode& mode, int workers, double busiest_bytes,
                        const StepShape& shape, const LinkCost& link) {
  double through_link = busiest_bytes;
  // A host's ranks share its link; inside there is none.
  if (Is(mode, "hierarchical")) {
    through_link =
        shape.wire_bytes * RingShare(HostsOf(workers, shape.ranks_per_host));
  }
  const double each =
      through_link * link.seconds_per_byte /
          static_cast<double>(shape.ready.size()) +
      Messages(mode, workers, shape.ranks_per_host) * link.latency_seconds;
  double end = 0;
  for (size_t i = 0; i < shape.ready.size(); ++i)
    end = std::max(end, ReadyAt(shape, i)) + each;
  return end;
}

// Each server has a contiguous part of the buckets.
double ThroughServers(int servers, int workers, const StepShape& shape,
                      const LinkCost& link) {
  const size_t buckets = shape.ready.size();
  const auto count = static_cast<size_t>(servers);
  // Every worker's push of a bucket goes in, and an answer to each out.
  const double each = workers * shape.wire_bytes * link.seconds_per_byte /
                      static_cast<double>(buckets);
  double end = 0;
  for (size_t server = 0; server < count; ++server) {
    double in = 0;
    double out = 0;
    for (size_t i = 0; i < buckets; ++i) {
      if (i * count / buckets != server) continue;
      in = std::max(in, ReadyAt(shape, i)) + each;
      out = std::max(out, in + 2 * link.latency_seconds) + each;
    }
    end = std::max(end, out);
  }
  return end;
}

// A worker's link carries what it pushes and what its own shard answers; the
// last bucket is pushed and answered after it is ready.
double ThroughWorkers(int workers, const StepShape& shape,
                      const LinkCost& link) {
  const double others = workers - 1;
  const double last = 2 * others * shape.wire_bytes * link.seconds_per_byte /
                          static_cast<double>(shape.ready.size()) +
                      2 * link.latency_seconds;
  return std::max(shape.wire_bytes * RingShare(workers) * link.seconds_per_byte,
                  ReadyAt(shape, shape.ready.size() - 1) + last);
}

}  // namespace

std::optional<NodeBytes> BytesOfStep(const Mode& mode, int workers,
                                     int ranks_per_host, double wire_bytes) {
  if (workers < 2 && !mode.is_parameter_server()) return NodeBytes{0, 0};
  switch (mode.kind) {
    case Mode::Kind::kServers:
      return NodeBytes{wire_bytes, std::max(wire_bytes, wire_bytes * workers /
                                                            mode.servers)};
    case Mode::Kind::kColocated:
      return NodeBytes{wire_bytes * RingShare(workers),
                       wire_bytes * RingShare(workers)};
    case Mode::Kind::kAllReduce:
      break;
  }
  return AllReduceBytes(mode, workers, ranks_per_host, wire_bytes);
}

std::vector<double> EvenlyReady(int64_t buckets) {
  std::vector<double> ready;
  for (int64_t i = 1; i <= buckets; ++i)
    ready.push_back(static_cast<double>(i) / static_cast<double>(buckets));
  return ready;
}

std::optional<double> TransferSeconds(const Mode& mode, int workers,
                                      const StepShape& shape,
                                      const LinkCost& link) {
  const auto bytes =
      BytesOfStep(mode, workers, shape.ranks_per_host, shape.wire_bytes);
  if (!bytes.has_value()) return std::nullopt;
  if (workers < 2 && !mode.is_parameter_server()) return 0;
  double seconds = 0;
  switch (mode.kind) {
    case Mode::Kind::kServers:
      seconds = ThroughServers(mode.servers, workers, shape, link);
      break;
    case Mode::Kind::kColocated:
      seconds = ThroughWorkers(workers, shape, link);
      break;
    case Mode::Kind::kAllReduce:
      seconds = OneAfterTheOther(mode, workers, bytes->busiest, shape, link);
      break;
  }
  return seconds * link.lengthening;
}

std::optional<double> StepSeconds(const Mode& mode, int workers,
                                  const StepShape& shape,
                                  const LinkCost& link) {
  const auto transfer = TransferSeconds(mode, workers, shape, link);
  if (!transfer.has_value()) return std::nullopt;
  if (*transfer <= 0) return shape.compute_seconds;
  const double left = shape.backward_seconds * (1 - shape.ready.front());
  return shape.compute_seconds + std::max(0.0, *transfer - left);
}

}  // namespace ringmaster::ctl
