#include "server/coordinator/page/logins.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "common/secrets/digest.h"
#include "common/secrets/random.h"

namespace ringmaster::coordinator {

std::string Logins::Add(std::string authorization, MonotonicTime now) {
  const std::string key = absl::BytesToHexString(RandomBytes(kKeyBytes));
  MutexLock lock(mutex_);
  if (logins_.size() == kMaxLogins) logins_.pop_front();
  logins_.push_back({.key_digest = Sha256(key),
                     .authorization = std::move(authorization),
                     .end = now + kLoginTime});
  return key;
}

std::string Logins::Find(std::string_view key, MonotonicTime now) const {
  // Digests are compared, so that the time that takes tells nothing of the key.
  const std::string digest = Sha256(key);
  MutexLock lock(mutex_);
  for (const Login& login : logins_) {
    if (login.key_digest == digest && now < login.end)
      return login.authorization;
  }
  return "";
}

void Logins::Remove(std::string_view key) {
  const std::string digest = Sha256(key);
  MutexLock lock(mutex_);
  std::erase_if(logins_,
                [&](const Login& login) { return login.key_digest == digest; });
}

}  // namespace ringmaster::coordinator
