// `ringctl compare` runs the same job in several modes and with several numbers
// of workers, one after the other and several times in turns, and reports the
// cost of each.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/config/flags.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/client.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

// The flags as they were written.
struct CompareFlags {
  std::string job_file;
  std::vector<std::string> assignments;  // --set
  std::string
      modes;  // "": ring,hierarchical,gather_broadcast; on GPUs kGpuModes
  std::string workers = "2,4";
  std::vector<std::string> variations;  // --vary
  std::string varied_modes;             // "": all
  bool is_batch_scaled = false;
  int repeats = 3;
  bool is_emulated = false;
  std::string link;  // "": not limited
  int ranks_per_host = 1;
  std::string device_memory;  // "": largest batches are not asked for
  std::string out;
  std::string device = "cpu";  // of workers on this machine
  bool share_gpu = false;
  int threads = 1;
  std::string bin_dir;
};

// Adds the command and its flags; `compare` must outlive the parsing.
void AddCompareCommand(FlagSet& flags, CompareFlags& compare);

struct CompareContext {
  Console& console;
  Clock& clock;
  // Rung when is_interrupted changes.
  Bell& bell;
  // Returns true once the user wants it to end: the job under way is cancelled,
  // and the report covers the runs before it.
  std::function<bool()> is_interrupted;
  std::string command;  // how it was called, for the report
  OutputFormat format = OutputFormat::kTable;  // kJson: comparison.json's text
  absl::Duration timeout = absl::Seconds(5);   // of a call
  // The client of the cluster to run on; null: this machine.
  Client* cluster = nullptr;
};

// Runs everything and writes the report after each run. A failed run becomes a
// line of the report, and the others continue. Returns the exit code: 0 if all
// runs succeeded, including those that measure memory, otherwise the first
// failure's; 143 if it was interrupted.
//   INVALID_ARGUMENT  names the flag, or the error in the job
// To be called on the main thread: children die with the thread that started
// them.
[[nodiscard]] absl::StatusOr<int> RunCompare(const CompareContext& context,
                                             const CompareFlags& flags);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_COMPARE_H_
