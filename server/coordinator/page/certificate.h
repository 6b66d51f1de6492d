// The page's side of TLS: the coordinator's certificate, followed.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_CERTIFICATE_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_CERTIFICATE_H_

#include <openssl/ssl.h>

#include <string>

#include "common/credentials/tls_watch.h"

namespace ringmaster::coordinator {

// Lets each connection of `context` show the certificate that `watch`, which outlives
// it, has by then. TLS 1.2 or newer.
void ShowCertificate(const TlsWatch& watch, SSL_CTX& context);

// True if the certificate that `watch` has is for `host`, a name or an address.
[[nodiscard]] bool NamesHost(const TlsWatch& watch, const std::string& host);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_CERTIFICATE_H_
