// The one factory of gRPC credentials, so that every connection follows the
// same rule:
//
//   TLS files given                    TLS. A server asks every client for a
//                                      certificate that its CA signed, or, if it
//                                      takes tokens, for one or the other; with
//                                      neither it could not tell who calls, and
//                                      is refused
//   none given, loopback address       clear text
//   none given, another address        refused, unless `insecure` is set
//
// The files of TLS are followed: a connection uses those that are there when it is
// made, or the last ones that were right (tls_watch.h). Connections that are open go on.
//
// Thread-safe.
#ifndef RINGMASTER_COMMON_CREDENTIALS_CREDENTIALS_H_
#define RINGMASTER_COMMON_CREDENTIALS_CREDENTIALS_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace ringmaster {

// The values of the flags --tls_ca_file, --tls_cert_file, --tls_key_file and
// --insecure. Files are PEM.
struct CredentialsOptions {
  // Certificates that sign the other side's.
  std::string tls_ca_file = {};
  // This side's certificate, followed by any intermediate ones; and its key.
  std::string tls_cert_file = {};
  std::string tls_key_file = {};
  // Allows clear text to and from other machines.
  bool insecure = false;
  // A client's: the file with the token that it shows with each call; only its owner
  // may be able to read it. It is read with each call.
  std::string token_file = {};
  // A server's: it takes clients with tokens, too.
  bool takes_tokens = false;
};

// Returns true if a flag asks for TLS.
[[nodiscard]] bool HasTlsFlag(const CredentialsOptions& options);

// Credentials to listen on `address` (`host:port` or `unix:...`).
// INVALID_ARGUMENT names the flag to add or to correct: a flag that another one
// needs, a file that is missing or not PEM, a key that does not belong to its
// certificate, a certificate that is not valid now, a token that others can read,
// or clear text without --insecure.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>>
MakeServerCredentials(const CredentialsOptions& options,
                      std::string_view address);

// Credentials to connect to `address`; same errors. Without a CA file, the
// server's certificate is checked against the system's.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>>
MakeChannelCredentials(const CredentialsOptions& options,
                       std::string_view address);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_CREDENTIALS_H_
