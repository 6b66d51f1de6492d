// Probes: looks at this machine, each in a process of its own, so that one that
// hangs (a name server, a disk) or dies (a driver's library) costs its answer
// and nothing else.
//
// To be started while the process has one thread. The processes end with this
// one, and none outlives Await but one that the kernel does not let end.
// Thread-compatible.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_PROBES_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_PROBES_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/transport/unique_fd.h"
#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

struct Probe {
  // The checks that it makes, in a word or two: "disk".
  std::string name;
  // Runs in the probe's process.
  std::function<std::vector<Finding>()> look;
  // The finding where it gives no answer: its level, and what to do then.
  Level level_of_silence = Level::kWarning;
  std::string remedy = {};
};

class Probes {
 public:
  // Starts all of them at once.
  explicit Probes(std::vector<Probe> probes);
  // Kills those that are still there.
  ~Probes();
  Probes(const Probes&) = delete;
  Probes& operator=(const Probes&) = delete;

  // The findings of all, in the order of the probes. Returns when all have
  // answered, or after `limit`; who has not is killed.
  [[nodiscard]] std::vector<Finding> Await(absl::Duration limit, Clock& clock);

 private:
  struct Run {
    Probe probe;
    pid_t pid = -1;
    UniqueFd output;
    std::string text = {};
    std::string trouble = {};  // why there is no process
  };

  static void Start(Run& run);
  // Reads what there is; closes the output at its end.
  static void Read(Run& run);
  // "the probe was ended by signal 11 (...)"; "" if it was not, or is not known.
  static std::string HowItEnded(Run& run);
  static std::vector<Finding> Finish(Run& run, absl::Duration limit);

  std::vector<Run> runs_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_PROBES_H_
