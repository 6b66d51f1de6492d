// TlsFiles: the TLS files of the flags, read and checked.
//
// gRPC would only log that a handshaker cannot be made; here a wrong file is an
// error that names its flag, before anything listens.
#ifndef RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_
#define RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_

#include <openssl/x509.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/credentials/credentials.h"

namespace ringmaster {

// An authority of the CA file.
struct Authority {
  // As RFC 2253 writes it.
  std::string subject;
  std::string serial;
  // SHA-256 of its public key, and of its certificate. Neither subject nor serial tell
  // authorities apart: a new one may have the old one's name, and serial 0 is common.
  std::string key_digest;
  std::string digest;
  absl::Time begin;
  absl::Time end;
};

// PEM texts; "" where the flag is not given. The rest is about the certificate, and
// empty without one.
struct TlsFiles {
  std::string ca;
  std::string certificate;
  std::string key;

  // As `openssl x509 -serial` writes it, and RFC 2253.
  std::string serial = {};
  std::string subject = {};
  std::string digest = {};  // SHA-256
  // When it begins and ends to be valid, with all that it depends on: intermediate
  // certificates, and the authority's if that is in the CA file.
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
  // One of the CA file signed it. It need not: that file is for the other side's.
  bool is_signed_by_ca = false;
  // All certificates of the CA file, not null, and SHA-256 of each.
  std::shared_ptr<X509_STORE> ca_store = {};
  std::set<std::string> ca_digests = {};
  // All in the CA file, also without a certificate; a subject and key that has
  // several certificates is there once, by the one that lasts longest.
  std::vector<Authority> authorities = {};
};

// Reads the files that `options` names, which must be valid at `now`. INVALID_ARGUMENT
// as in credentials.h.
[[nodiscard]] absl::StatusOr<TlsFiles> ReadTlsFiles(
    const CredentialsOptions& options, absl::Time now);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_
