// Formulas for the bytes that each mode must move and the time it should take;
// prediction.h applies them to runs.
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

// nullopt for a mode whose bytes depend on the algorithm chosen: "auto".
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

// The parts of a step other than its reduction.
struct StepShape {
  double compute_seconds = 0;
  // The part that overlaps transfers: the backward pass of the last
  // micro-batch, which completes the step's gradients.
  double backward_seconds = 0;
  double wire_bytes = 0;
  // When each bucket's gradients are final, as shares of the backward pass,
  // ascending; at least one. Buckets are taken as equal in size.
  std::vector<double> ready = {1};
  int ranks_per_host = 1;
};

// Buckets that become ready one after the other, at even distances.
[[nodiscard]] std::vector<double> EvenlyReady(int64_t buckets);

// Returns the seconds from the moment the first bucket is ready until the last
// is back. An all-reduce does one bucket after the other. A server receives one
// after the other and sends one after the other, at the same time: it is one
// bucket behind. Multiplied by `link.lengthening`.
[[nodiscard]] std::optional<double> TransferSeconds(const Mode& mode,
                                                    int workers,
                                                    const StepShape& shape,
                                                    const LinkCost& link);

// Returns the time of a step: computing, and the part of the transfer that the
// backward pass does not hide.
[[nodiscard]] std::optional<double> StepSeconds(const Mode& mode, int workers,
                                                const StepShape& shape,
                                                const LinkCost& link);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_THEORY_H_
