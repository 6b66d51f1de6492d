#include "common/secrets/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "common/status/check.h"

namespace ringmaster {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  size_t done = 0;
  while (done < count) {
    const ssize_t got = getrandom(&bytes[done], count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    RM_CHECK(got > 0, "getrandom failed");
    done += static_cast<size_t>(got);
  }
  return bytes;
}

uint64_t RandomIncarnation() {
  uint64_t number = 0;
  while (number == 0) {
    const std::string bytes = RandomBytes(sizeof(number));
    std::memcpy(&number, bytes.data(), sizeof(number));
  }
  return number;
}

}  // namespace ringmaster
