// The TLS files of the flags, read and checked.
//
// gRPC would only log that a handshaker cannot be made; here a wrong file is an
// error that names its flag, before anything listens.
#ifndef RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_
#define RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_

#include "absl/status/status.h"
#include "common/credentials/credentials.h"

namespace ringmaster {

// OK if the files that `options` names are what their flags ask for.
// INVALID_ARGUMENT as in credentials.h.
[[nodiscard]] absl::Status CheckTlsFiles(const CredentialsOptions& options);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_TLS_FILES_H_
