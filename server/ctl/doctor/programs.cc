#include "server/ctl/doctor/programs.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/ctl/doctor/output_of.h"

namespace ringmaster::ctl {
namespace {

void AskVersion(ProgramFacts& program) {
  const absl::StatusOr<std::string> output =
      OutputOf(program.path, {"--version"}, /*input=*/"");
  if (output.ok()) {
    program.version = std::string(absl::StripAsciiWhitespace(*output));
  } else {
    program.error = std::string(output.status().message());
  }
}

Finding ProgramFinding(const ProgramFacts& program,
                       const std::string& own_version) {
  constexpr std::string_view kRemedy =
      "unpack one bundle whole, or name its directory with --bin_dir";
  // "coordinator" alone is the one that answers.
  const std::string check = absl::StrCat("program ", program.name);
  if (program.path.empty()) {
    return Warn(check, program.error, "this host cannot start it from here",
                std::string(kRemedy));
  }
  if (program.version.empty()) {
    return Fail(check,
                absl::StrCat(program.path, " does not run: ", program.error),
                "it needs nothing but a C library as new as Debian 12's",
                "start it by hand with --version, and see what is missing");
  }
  const std::string what = absl::StrCat(program.path, ", ", program.version);
  if (program.version == own_version) return Good(check, what);
  return Fail(check, absl::StrCat(what, "; ringctl is ", own_version),
              "programs of two releases are not made to run together",
              std::string(kRemedy));
}

}  // namespace

std::vector<ProgramFacts> GatherProgramFacts(const BinaryPlaces& places) {
  std::vector<ProgramFacts> programs;
  for (const char* name : {"coordinator", "parameter_server", "worker"}) {
    ProgramFacts program{.name = name, .path = {}, .version = {}, .error = {}};
    absl::StatusOr<std::string> path = FindBinary(name, places);
    if (path.ok()) {
      program.path = *std::move(path);
      AskVersion(program);
    } else {
      program.error = std::string(path.status().message());
    }
    programs.push_back(std::move(program));
  }
  return programs;
}

std::vector<Finding> ProgramFindings(const std::vector<ProgramFacts>& programs,
                                     const std::string& own_version) {
  std::vector<Finding> findings;
  for (const ProgramFacts& program : programs)
    findings.push_back(ProgramFinding(program, own_version));
  return findings;
}

}  // namespace ringmaster::ctl
