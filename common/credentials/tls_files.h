// TlsFiles: the TLS files of the flags, read and checked.
//
// gRPC would only log that a handshaker cannot be made; here a wrong file is an
// error that names its flag, before anything listens.
#ifndef RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_
#define RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/credentials/credentials.h"

namespace ringmaster {

// PEM texts; "" where the flag is not given.
struct TlsFiles {
  std::string ca;
  std::string certificate;
  std::string key;
};

// Reads the files that `options` names. INVALID_ARGUMENT as in credentials.h.
[[nodiscard]] absl::StatusOr<TlsFiles> ReadTlsFiles(
    const CredentialsOptions& options);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_
