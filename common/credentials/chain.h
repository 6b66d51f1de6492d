// The chain from a certificate to an authority.
#ifndef RINGMASTER_COMMON_CREDENTIALS_CHAIN_H_
#define RINGMASTER_COMMON_CREDENTIALS_CHAIN_H_

#include <openssl/x509.h>

#include <memory>

#include "absl/time/time.h"
#include "common/credentials/pem.h"

namespace ringmaster {

// The authorities of `ca`, for any number of calls of ChainOf at once.
[[nodiscard]] std::shared_ptr<X509_STORE> StoreOf(const Certificates& ca);

// The extended key usage that is asked of a certificate.
enum class Usage { kAny, kClient };

// The certificates from the first of `own` to an authority of `ca` that it leads to,
// as TLS would find them (RFC 5280, section 6); none if it leads to none. Dates do not
// count, but of several certificates that one could lead to, one that is valid at `now`
// is taken: only its key may be the right one. `own` is not empty.
[[nodiscard]] Certificates ChainOf(const Certificates& own, X509_STORE& ca,
                                   absl::Time now, Usage usage);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_CHAIN_H_
