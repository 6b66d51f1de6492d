#include "common/machine/host_key.h"

#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <climits>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ringmaster {

std::string MakeHostKey(std::string_view hostname, std::string_view boot_id,
                        std::string_view network_namespace) {
  const auto part = [](std::string_view text) {
    return absl::StrCat(text.size(), ":",
                        absl::string_view(text.data(), text.size()));
  };
  const std::string all =
      part(hostname) + part(boot_id) + part(network_namespace);
  return absl::StrFormat("%016x", XXH3_64bits(all.data(), all.size()));
}

std::string ThisHostKey() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  std::array<char, 128> link = {};
  const ssize_t size =
      readlink("/proc/self/ns/net", link.data(), link.size() - 1);
  return MakeHostKey(
      ThisHostName(), boot_id,
      std::string_view(link.data(), size > 0 ? static_cast<size_t>(size) : 0));
}

std::string ThisHostName() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name.data();
}

}  // namespace ringmaster
