// How long it takes from kill -9 of one rank until all others are unblocked, and whom they blame.
#ifndef RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_DEAD_RANK_H_
#define RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_DEAD_RANK_H_

#include "absl/status/status.h"
#include "worker/collective/connect_mesh.h"

namespace ringmaster {

// `world_size` new processes reduce without an end; rank `victim` is killed meanwhile. Prints
//   {"dead_rank": "tcp", "ranks": 4, "bytes": 1048576, "slowest_ms": until the last survivor's call returned,
//    "survivors": 3, "named": how many of their communicators blame the victim}
[[nodiscard]] absl::Status MeasureDeadRank(Transport transport, int world_size,
                                           int victim);

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_BENCH_ALLREDUCE_VS_PEERS_DEAD_RANK_H_
