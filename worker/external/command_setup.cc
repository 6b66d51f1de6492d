#include "worker/external/command_setup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr size_t kMaxSecretBytes = 64 << 10;

absl::Status FileError(int error, const std::string& path, FileAccess access,
                       const FileRoots& files) {
  if (error == EXDEV || error == EINVAL) return files.Refusal(path, access);
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM)
    return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

// 0, or the errno for which `path`, beneath `directory` if it is relative, is no
// file that can be run.
int WhyNotRunnable(int directory, const std::string& path) {
  struct stat found {};
  const int from = directory < 0 ? AT_FDCWD : directory;
  if (::fstatat(from, path.c_str(), &found, 0) != 0) return errno;
  if (S_ISDIR(found.st_mode)) return EISDIR;
  return ::faccessat(from, path.c_str(), X_OK, 0) == 0 ? 0 : errno;
}

absl::StatusOr<std::string> FindProgram(const std::string& name,
                                        const std::string& path,
                                        int directory) {
  const auto refusal = [&](int error) {
    const std::string message = absl::StrCat("external.command: cannot run ",
                                             name, ": ", std::strerror(error));
    return error == ENOENT || error == ENOTDIR
               ? absl::NotFoundError(message)
               : absl::PermissionDeniedError(message);
  };
  if (absl::StrContains(name, '/')) {
    if (const int error = WhyNotRunnable(directory, name); error != 0)
      return refusal(error);
    return name;
  }
  int worst = 0;
  for (const absl::string_view place : absl::StrSplit(path, ':')) {
    if (!absl::StartsWith(place, "/")) continue;
    std::string candidate = absl::StrCat(place, "/", name);
    const int error = WhyNotRunnable(-1, candidate);
    if (error == 0) return candidate;
    if (error == EACCES) worst = error;
  }
  if (worst != 0) return refusal(worst);
  return absl::NotFoundError(absl::StrCat("external.command: there is no ",
                                          name, " in PATH (", path, ")"));
}

absl::StatusOr<std::string> ReadSecret(const std::string& path,
                                       const FileRoots& files) {
  const UniqueFd fd = files.OpenFile(path, O_RDONLY);
  if (!fd.is_open()) return FileError(errno, path, FileAccess::kRead, files);
  std::string value;
  std::array<char, 4096> bytes{};
  while (true) {
    const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(errno, path, FileAccess::kRead, files);
    if (count == 0) break;
    value.append(bytes.data(), static_cast<size_t>(count));
    if (value.size() > kMaxSecretBytes) {
      return absl::UnavailableError(
          absl::StrCat(path, ": a variable's value has at most ",
                       kMaxSecretBytes, " bytes"));
    }
  }
  if (absl::EndsWith(value, "\n")) value.pop_back();
  if (absl::StrContains(value, '\0')) {
    return absl::UnavailableError(
        absl::StrCat(path, ": a variable's value has no zero byte"));
  }
  return value;
}

}  // namespace

absl::StatusOr<CommandSetup> SetUpCommand(const v1::ExternalProgram& program,
                                          const FileRoots& files) {
  CommandSetup setup;
  setup.arguments.assign(program.command().begin(), program.command().end());
  setup.variables = {program.environment().begin(),
                     program.environment().end()};
  for (const auto& [name, path] : program.secret_environment()) {
    absl::StatusOr<std::string> value = ReadSecret(path, files);
    if (!value.ok()) {
      return Annotate(value.status(),
                      absl::StrCat("external.secret_environment.", name));
    }
    setup.variables[name] = *std::move(value);
  }
  if (const std::string& path = program.working_directory(); !path.empty()) {
    setup.directory = files.OpenFile(path, O_RDONLY | O_DIRECTORY);
    if (!setup.directory.is_open()) {
      return Annotate(FileError(errno, path, FileAccess::kRead, files),
                      "external.working_directory");
    }
  }
  const auto own_path = setup.variables.find("PATH");
  const char* const path = std::getenv("PATH");
  ASSIGN_OR_RETURN(
      setup.program,
      FindProgram(setup.arguments.front(),
                  own_path != setup.variables.end() ? own_path->second
                  : path != nullptr                 ? std::string(path)
                                    : std::string("/usr/bin:/bin"),
                  setup.directory.get()));
  return setup;
}

}  // namespace ringmaster
