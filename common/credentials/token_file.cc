#include "common/credentials/token_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/config/read_file.h"

namespace ringmaster {
namespace {

bool IsToken(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  std::strchr("-._~+/=", c) != nullptr;
         });
}

}  // namespace

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  const auto wrong = [&path](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("--token_file=", path, ": ", why));
  };
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return wrong(std::strerror(errno));
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return wrong(
        "others can read it, and the token may be theirs by now: "
        "revoke it, and chmod 600 the file of the next");
  }
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return wrong(text.status().message());
  std::string token(absl::StripAsciiWhitespace(*text));
  if (!IsToken(token)) return wrong("has no token");
  return token;
}

}  // namespace ringmaster
