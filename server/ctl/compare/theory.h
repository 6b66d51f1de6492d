// What each mode must move, and how long a step should take: the model that the
// report sets beside what was measured, and that carries it on to more nodes.
//
// K is the gradient's size on the wire, N the workers, a the latency of a
// message and b the time of a byte through a node's link, which carries both
// directions at once. Bytes per node and step, each direction: ring 2K(N-1)/N
// (Patarasuk and Yuan, 2009); one of S parameter servers NK/S and each worker K
// (Li et al., 2014); with the servers inside the workers 2K(N-1)/N; the root of
// gather-broadcast K(N-1). Times: Thakur, Rabenseifner and Gropp (2005),
// without the additions. Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_THEORY_H_
#define RINGMASTER_SERVER_CTL_COMPARE_THEORY_H_

#include <cstdint>
#include <optional>

#include "server/ctl/compare/mode.h"
#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// Sent by a node in a step; as much is received.
struct NodeBytes {
  double worker = 0;   // one of the workers: not the root, if there is one
  double busiest = 0;  // the root, a server, or any where all do the same
};

// Nothing for a mode whose bytes depend on what was chosen: "auto".
// `ranks_per_host` matters to hierarchical alone.
[[nodiscard]] std::optional<NodeBytes> BytesOfStep(const Mode& mode,
                                                   int workers,
                                                   int ranks_per_host,
                                                   double wire_bytes);

struct LinkCost {
  double latency_seconds = 0;
  double seconds_per_byte = 0;
};

// What a step is made of, beside how it is reduced.
struct StepShape {
  double compute_seconds = 0;
  double backward_seconds = 0;  // the part that transfers run beside
  double wire_bytes = 0;
  int64_t buckets = 1;
  int ranks_per_host = 1;
};

// Seconds in which gradients travel, if nothing else went on.
[[nodiscard]] std::optional<double> TransferSeconds(const Mode& mode,
                                                    int workers,
                                                    const StepShape& shape,
                                                    const LinkCost& link);

// A step: what is computed, and what of the transfer does not hide behind the
// backward pass. The last bucket never does, nor any if there is but one.
[[nodiscard]] std::optional<double> StepSeconds(const Mode& mode, int workers,
                                                const StepShape& shape,
                                                const LinkCost& link);

// The shape of a run's step, as it was measured.
[[nodiscard]] StepShape ShapeOf(const RunResult& run);

// The link that runs were made over: the rate it was limited to, else what the
// all-reduce over the fewest workers reached, which is then no prediction of
// it. Nothing where neither is known.
[[nodiscard]] std::optional<LinkCost> LinkOf(const Comparison& comparison);

// Assumed of a message, in LinkOf.
inline constexpr double kLatencySeconds = 100e-6;

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_THEORY_H_
