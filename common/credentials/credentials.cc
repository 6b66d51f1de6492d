#include "common/credentials/credentials.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/address.h"
#include "common/credentials/tls_files.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// OK iff clear text is allowed at `address`; `flags` would make it TLS.
absl::Status CheckClearText(const CredentialsOptions& options,
                            std::string_view address, std::string_view flags) {
  if (options.insecure || IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(address), " is not a loopback address: give ",
      std::string(flags), " for TLS, or --insecure to allow clear text"));
}

absl::Status CheckFlags(const CredentialsOptions& options) {
  if (options.insecure && HasTlsFlag(options)) {
    return absl::InvalidArgumentError(
        "--insecure contradicts --tls_ca_file, --tls_cert_file and "
        "--tls_key_file; give one or the other");
  }
  return absl::OkStatus();
}

}  // namespace

bool HasTlsFlag(const CredentialsOptions& options) {
  return !options.tls_ca_file.empty() || !options.tls_cert_file.empty() ||
         !options.tls_key_file.empty();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const CredentialsOptions& options, std::string_view address) {
  RETURN_IF_ERROR(CheckFlags(options));
  if (!HasTlsFlag(options)) {
    RETURN_IF_ERROR(CheckClearText(
        options, address,
        "--tls_cert_file and --tls_key_file (and --tls_ca_file)"));
    return grpc::InsecureServerCredentials();
  }
  if (options.tls_cert_file.empty() && options.tls_key_file.empty()) {
    return absl::InvalidArgumentError(
        "--tls_ca_file needs --tls_cert_file and --tls_key_file as well");
  }
  ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options));
  grpc::SslServerCredentialsOptions ssl(
      files.ca.empty()
          ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
          : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  ssl.pem_root_certs = std::move(files.ca);
  ssl.pem_key_cert_pairs.push_back(
      {std::move(files.key), std::move(files.certificate)});
  return grpc::SslServerCredentials(ssl);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>>
MakeChannelCredentials(const CredentialsOptions& options,
                       std::string_view address) {
  RETURN_IF_ERROR(CheckFlags(options));
  if (!HasTlsFlag(options)) {
    RETURN_IF_ERROR(CheckClearText(
        options, address,
        "--tls_ca_file (and --tls_cert_file and --tls_key_file)"));
    return grpc::InsecureChannelCredentials();
  }
  ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options));
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = std::move(files.ca);
  ssl.pem_private_key = std::move(files.key);
  ssl.pem_cert_chain = std::move(files.certificate);
  return grpc::SslCredentials(ssl);
}

}  // namespace ringmaster
