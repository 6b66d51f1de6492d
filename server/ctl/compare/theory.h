// The bytes that each mode must move, and the time that this should take:
// formulas, which prediction.h applies to runs.
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
#include <vector>

#include "server/ctl/compare/mode.h"

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
  // The factor by which a mode's transfers take longer than by the formulas.
  double lengthening = 1;
};

// The parts of a step, beside the way it is reduced.
struct StepShape {
  double compute_seconds = 0;
  // The part that transfers run beside: of the last micro-batch, whose
  // gradients are those of the step.
  double backward_seconds = 0;
  double wire_bytes = 0;
  // When each bucket's gradients are final, as shares of the backward pass,
  // ascending; at least one. Buckets are taken as equal in size.
  std::vector<double> ready = {1};
  int ranks_per_host = 1;
};

// Buckets that become ready one after the other, at even distances.
[[nodiscard]] std::vector<double> EvenlyReady(int64_t buckets);

// Seconds in which gradients travel: from the moment at which the first bucket
// is ready to the one at which the last is back. An all-reduce does one bucket
// after the other. A server takes in one after the other and sends one after
// the other, both at once: it is behind by a bucket. Times `link.lengthening`.
[[nodiscard]] std::optional<double> TransferSeconds(const Mode& mode,
                                                    int workers,
                                                    const StepShape& shape,
                                                    const LinkCost& link);

// A step: what is computed, and what of the transfer does not hide behind the
// backward pass.
[[nodiscard]] std::optional<double> StepSeconds(const Mode& mode, int workers,
                                                const StepShape& shape,
                                                const LinkCost& link);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_THEORY_H_
