#include "server/ctl/commands/compare.h"

namespace ringmaster::ctl {

void AddCompareCommand(FlagSet& flags, CompareFlags& compare) {
  FlagSet& command = flags.AddCommand(
      "compare",
      "Train a job in several modes, one after the other, and write a report "
      "on what each costs: on this machine, or with --coordinator on a "
      "cluster.");
  command.AddArgument("JOB_FILE", "The job file (docs/jobs.md).",
                      /*is_required=*/true, &compare.job_file);
  command.Add({.name = "out",
               .unit = "DIR",
               .help = "Where the report goes, its JSON, its charts and logs.",
               .is_required = true},
              &compare.out);
  command.Add(
      {.name = "modes",
       .unit = "MODE,MODE",
       .help = "The modes to compare: ring, hierarchical, gather_broadcast, "
               "halving_doubling, direct, exchange, auto, ps:N (N parameter "
               "servers), ps:colocated. By default "
               "ring,hierarchical,gather_broadcast. On GPUs auto is NCCL's own "
               "choice and ring NCCL restricted to rings; of the rest there is "
               "only ps, and auto,ring is the default (of a cluster auto, "
               "which is a ring where its workers were started so)."},
      &compare.modes);
  command.Add({.name = "workers",
               .unit = "N,N",
               .help = "Numbers of workers; each mode runs with each."},
              &compare.workers);
  command.Add({.name = "repeats",
               .unit = "N",
               .help = "Run every combination so many times, in turns: figures "
                       "get a spread, and only what exceeds it is a finding.",
               .min = 1,
               .max = 20},
              &compare.repeats);
  command.Add({.name = "vary",
               .unit = "LABEL:FIELD=VALUE",
               .help = "Also run each mode with these changes, separated by ;. "
                       "May be repeated."},
              &compare.variations);
  command.Add({.name = "vary_modes",
               .unit = "MODE,MODE",
               .help = "Vary only these modes."},
              &compare.varied_modes);
  command.Add({.name = "scale_batch",
               .help = "Let global_batch grow with the number of workers, "
                       "starting at the fewest: equal work for each worker."},
              &compare.is_batch_scaled);
  command.Add(
      {.name = "emulate_compute",
       .help = "Wait instead of computing, for as long as a single worker was "
               "measured to compute: for more workers than there are cores."},
      &compare.is_emulated);
  command.Add({.name = "set",
               .unit = "FIELD=VALUE",
               .help = "Change a field of the job file; may be repeated."},
              &compare.assignments);
  command.Add({.name = "link",
               .unit = "RATE",
               .help = "On this machine: limit the link of each host, as 1gbit "
                       "or 250mbit. Without it workers share memory."},
              &compare.link);
  command.Add({.name = "ranks_per_host",
               .unit = "N",
               .help = "With --link: workers that share a host and its link.",
               .min = 1,
               .max = 64},
              &compare.ranks_per_host);
  command.Add({.name = "device_memory",
               .unit = "SIZE",
               .help = "Also find the batch that fits if each worker and "
                       "server has this much memory, as 8GiB: by two more "
                       "short runs of each mode, with the most workers."},
              &compare.device_memory);
  command.Add(
      {.name = "device",
       .help =
           "On this machine: the device that workers compute on, its processor "
           "or a GPU each (slot 0 the first that CUDA_VISIBLE_DEVICES shows).",
       .choices = {"cpu", "cuda"}},
      &compare.device);
  command.Add({.name = "share_gpu",
               .help = "For tests, with --device=cuda: all workers compute on "
                       "the first GPU."},
              &compare.share_gpu);
  command.Add({.name = "threads",
               .unit = "N",
               .help = "Threads that each worker computes with.",
               .min = 1,
               .max = 256},
              &compare.threads);
  command.Add({.name = "bin_dir",
               .unit = "DIR",
               .help = "Where the programs coordinator and worker are; beside "
                       "ringctl unless given.",
               .is_place = true},
              &compare.bin_dir);
}

}  // namespace ringmaster::ctl
