// Certificates and keys in PEM (RFC 7468), as OpenSSL's own.
#ifndef RINGMASTER_COMMON_CREDENTIALS_PEM_H_
#define RINGMASTER_COMMON_CREDENTIALS_PEM_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

namespace ringmaster {

using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificates = std::vector<X509Ptr>;

// Both leave OpenSSL's queue of errors empty: whoever uses it next, gRPC or a
// handshake under way, would take what is left there for its own.

// All certificates of `pem`, in order; none if there is none, or one of them is not
// whole.
[[nodiscard]] Certificates ParseCertificates(const std::string& pem);

// Null: no key. One with a password is not read, as there is nobody to ask for it.
[[nodiscard]] KeyPtr ParseKey(const std::string& pem);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_PEM_H_
