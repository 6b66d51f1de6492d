#include "common/config/read_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  // stdio, not streams: those do not say why they failed.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    return absl::InvalidArgumentError(std::strerror(errno));
  }
  std::string text(kMaxTextFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return absl::InvalidArgumentError(std::strerror(errno));
  }
  if (text.size() > kMaxTextFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("is larger than ", kMaxTextFileBytes, " bytes"));
  }
  return text;
}

}  // namespace ringmaster
