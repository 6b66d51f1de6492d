// The findings of `ringctl doctor` about the bundle's other programs.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_PROGRAMS_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_PROGRAMS_H_

#include <string>
#include <vector>

#include "server/ctl/doctor/finding.h"
#include "server/ctl/local/binaries.h"

namespace ringmaster::ctl {

struct ProgramFacts {
  std::string name;
  std::string path;     // "": not found
  std::string version;  // what --version prints; "" if it does not run
  std::string error;    // why one of them is missing
};

// Looks for coordinator, parameter_server and worker, and asks each for its
// version: as long as they take.
[[nodiscard]] std::vector<ProgramFacts> GatherProgramFacts(
    const BinaryPlaces& places);

// `own_version` is ringctl's. Pure.
[[nodiscard]] std::vector<Finding> ProgramFindings(
    const std::vector<ProgramFacts>& programs, const std::string& own_version);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_PROGRAMS_H_
