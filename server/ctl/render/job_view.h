// A job as it is watched: a table that is redrawn in place, or single lines
// where there is no terminal.
//
// Pure: figures and time come in, text goes out.
#ifndef RINGMASTER_SERVER_CTL_RENDER_JOB_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_JOB_VIEW_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ringmaster/v1/job.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// The values that the table shows beside the job itself.
struct JobContext {
  // The course of the loss, oldest first, for the sparkline.
  std::vector<double> losses = {};
  // Why figures are not moving: "no connection to the coordinator; trying
  // again"; empty if they are.
  std::string notice = {};
  absl::Time now = absl::InfinitePast();  // unknown
};

// The live table. Never more lines than the style's height less one: ranks that
// have no room are counted, and the model's last sample gets half of what is
// left.
[[nodiscard]] std::vector<std::string> LiveTable(const v1::Job& job,
                                                 const JobContext& context,
                                                 const Style& style);

// "job mlp-1 is GATHERING, generation 3: 1 of 2 workers".
[[nodiscard]] std::string StateLine(const v1::Job& job);

// "step 120/500 loss 2.310 samples/s 81234 step 3.1ms wait 12% eta 2s", with
// tokens/s of a language model.
[[nodiscard]] std::string ProgressLine(const v1::Job& job);

// "resumed from step 1200: checkpoint /data/ck/step-000001200"; empty if the
// job did not start from a checkpoint.
[[nodiscard]] std::string ResumptionLine(const v1::Job& job);

// "checkpoints fail: rank 0 (w-1 on beta) after step 60: cannot write ...: No space
// left on device", and how many other ranks fail as well; empty if none does.
[[nodiscard]] std::string CheckpointErrorLine(const v1::Job& job,
                                              const Style& style);

// Says how an ended job ended: "job mlp-1 succeeded: 500 steps in 21s, loss
// 1.734, evaluation loss 1.801, parameters 9f3c...".
[[nodiscard]] std::string FinalLine(const v1::Job& job, const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_JOB_VIEW_H_
