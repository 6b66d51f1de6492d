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
  if (Is(mode, "hierarchical"))
    return 2 * (HostsOf(workers, ranks_per_host) - 1) + 2;
  return 2.0 * (workers - 1);
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

std::optional<double> TransferSeconds(const Mode& mode, int workers,
                                      const StepShape& shape,
                                      const LinkCost& link) {
  const auto bytes =
      BytesOfStep(mode, workers, shape.ranks_per_host, shape.wire_bytes);
  if (!bytes.has_value()) return std::nullopt;
  if (workers < 2 && !mode.is_parameter_server()) return 0;
  double through_link = bytes->busiest;
  if (Is(mode, "hierarchical")) {
    // A host's ranks share its link; inside there is none.
    through_link =
        shape.wire_bytes * RingShare(HostsOf(workers, shape.ranks_per_host));
  } else if (Is(mode, "gather_broadcast")) {
    // A bucket's sum goes out once it has come in whole, and the next bucket
    // waits for it: the two directions follow one another.
    through_link *= 2;
  }
  return through_link * link.seconds_per_byte +
         static_cast<double>(shape.buckets) *
             Messages(mode, workers, shape.ranks_per_host) *
             link.latency_seconds;
}

std::optional<double> StepSeconds(const Mode& mode, int workers,
                                  const StepShape& shape,
                                  const LinkCost& link) {
  const auto transfer = TransferSeconds(mode, workers, shape, link);
  if (!transfer.has_value()) return std::nullopt;
  const auto buckets = static_cast<double>(std::max<int64_t>(1, shape.buckets));
  const double last = *transfer / buckets;
  const double hidden = shape.backward_seconds * (1 - 1 / buckets);
  return shape.compute_seconds + std::max(last, *transfer - hidden);
}

StepShape ShapeOf(const RunResult& run) {
  StepShape shape;
  shape.compute_seconds = run.compute_seconds + run.other_seconds;
  shape.backward_seconds = run.backward_seconds;
  shape.wire_bytes = run.wire_bytes();
  shape.ranks_per_host = std::max(1, run.ranks_per_host);
  shape.buckets = 1;
  if (run.bucket_bytes > 0) {
    shape.buckets = std::max<int64_t>(
        1, static_cast<int64_t>(std::ceil(
               run.gradient_bytes / static_cast<double>(run.bucket_bytes))));
  }
  return shape;
}

std::optional<LinkCost> LinkOf(const Comparison& comparison) {
  if (comparison.conditions.link_bytes_per_second > 0) {
    return LinkCost{kLatencySeconds,
                    1 / comparison.conditions.link_bytes_per_second};
  }
  const RunResult* fewest = nullptr;
  for (const RunResult& run : comparison.runs) {
    if (!run.is_ok() || run.workers < 2 || run.all_reduce_seconds <= 0)
      continue;
    if (fewest == nullptr || run.workers < fewest->workers) fewest = &run;
  }
  if (fewest == nullptr) return std::nullopt;
  const auto bytes = BytesOfStep(fewest->mode, fewest->workers,
                                 fewest->ranks_per_host, fewest->wire_bytes());
  if (!bytes.has_value() || bytes->busiest <= 0) return std::nullopt;
  return LinkCost{0, fewest->all_reduce_seconds / bytes->busiest};
}

}  // namespace ringmaster::ctl
