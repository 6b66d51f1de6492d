// The chain from a certificate to an authority.
#ifndef RINGMASTER_COMMON_CREDENTIALS_CHAIN_H_
#define RINGMASTER_COMMON_CREDENTIALS_CHAIN_H_

#include <optional>

#include "absl/time/time.h"
#include "common/credentials/pem.h"

namespace ringmaster {

// The certificates from the first of `own` to an authority of `ca` that it leads to,
// as TLS would find them (RFC 5280, section 6), at `now` or, without that, whether or
// not they are valid; none if it leads to none. `own` is not empty.
[[nodiscard]] Certificates ChainOf(const Certificates& own,
                                   const Certificates& ca,
                                   std::optional<absl::Time> now);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_CHAIN_H_
