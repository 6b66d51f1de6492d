// RankProgram is a rank in a process of its own, driven through its standard input
// and output, one line for each command and answer. For tests of what only
// processes can do: share a GPU through NCCL, and be killed.
//
// It says "address HOST:PORT" or "skip WHY" first. Commands:
//   connect GENERATION RANK ADDRESS...  the mesh and NCCL of a generation
//   check                               collectives whose results it knows
//   reduce COUNT                        an all-reduce
//   drop                                the communicator goes
// Answers: "ok SECONDS" or "CODE message".
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_TESTING_RANK_PROGRAM_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_TESTING_RANK_PROGRAM_H_

namespace ringmaster {

// In the environment, "1" is NcclSettings::ring; kShareGpuVariable is share_gpu.
inline constexpr char kRingVariable[] = "RINGMASTER_TEST_NCCL_RING";

// The main function of such a process.
int RunRankProgram();

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_TESTING_RANK_PROGRAM_H_
