#include "server/ctl/doctor/output_of.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/process/pipe.h"
#include "common/process/subprocess.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"

namespace ringmaster::ctl {
namespace {

absl::Status Failure() { return absl::UnavailableError(std::strerror(errno)); }

// Holds all of `input`, so that nobody waits for a reader.
UniqueFd InputOf(std::string_view input) {
  UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  if (!file.is_open()) return file;
  const ssize_t written = ::write(file.get(), input.data(), input.size());
  if (written != static_cast<ssize_t>(input.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return UniqueFd();
  }
  return file;
}

}  // namespace

absl::StatusOr<std::string> OutputOf(const std::string& program,
                                     const std::vector<std::string>& arguments,
                                     std::string_view input) {
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  const UniqueFd given = InputOf(input);
  if (!given.is_open()) return Failure();
  absl::StatusOr<Subprocess> process =
      Subprocess::Start({.program = program,
                         .arguments = arguments,
                         .in = given.get(),
                         .out = out.write.get(),
                         .error = STDERR_FILENO});
  if (!process.ok()) return absl::UnavailableError(process.status().message());
  out.write.Reset();
  std::string output;
  std::array<char, 256> buffer{};
  ssize_t count = 0;
  while ((count = ::read(out.read.get(), buffer.data(), buffer.size())) > 0)
    output.append(buffer.data(), static_cast<size_t>(count));
  if (!process->Wait(absl::InfiniteDuration())) return Failure();
  const SubprocessEnd end = *process->End();
  if (end.is_good()) return output;
  return absl::UnavailableError(
      end.signal > 0 ? absl::StrCat("it was ended by signal ", end.signal)
                     : absl::StrCat("it ended with ", end.exit_code));
}

}  // namespace ringmaster::ctl
