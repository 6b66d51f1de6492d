#include "common/secrets/digest.h"

#include <openssl/evp.h>

#include "common/status/check.h"

namespace ringmaster {

std::string Sha256(std::string_view text) {
  std::string digest(32, '\0');
  unsigned int size = 0;
  const int ok = EVP_Digest(text.data(), text.size(),
                            reinterpret_cast<unsigned char*>(digest.data()),
                            &size, EVP_sha256(), nullptr);
  RM_CHECK(ok == 1 && size == digest.size(), "SHA-256 failed");
  return digest;
}

}  // namespace ringmaster
