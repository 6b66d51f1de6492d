// Sha256 keeps what has to be recognised without keeping the secret itself.
// Pure.
#ifndef RINGMASTER_COMMON_SECRETS_DIGEST_H_
#define RINGMASTER_COMMON_SECRETS_DIGEST_H_

#include <string>
#include <string_view>

namespace ringmaster {

// The SHA-256 (FIPS 180-4) of `text`: 32 bytes. Digests of secrets with 128 random
// bits or more may be stored in the clear and compared in any time: neither tells
// anything of the secret.
[[nodiscard]] std::string Sha256(std::string_view text);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_SECRETS_DIGEST_H_
