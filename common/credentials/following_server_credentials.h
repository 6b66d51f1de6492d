// gRPC's credentials of a server whose TLS files are followed.
#ifndef RINGMASTER_COMMON_CREDENTIALS_FOLLOWING_SERVER_CREDENTIALS_H_
#define RINGMASTER_COMMON_CREDENTIALS_FOLLOWING_SERVER_CREDENTIALS_H_

#include <memory>

#include "common/credentials/tls_watch.h"

namespace grpc {
class ServerCredentials;
}  // namespace grpc

namespace ringmaster {

// Each handshake uses the newest files of `watch`. Clients need a certificate that the
// CA file signed; or, if `takes_tokens`, may do without, and without a CA file are not
// asked for one.
//
// Its metadata processor must not block, nor consume metadata.
[[nodiscard]] std::shared_ptr<grpc::ServerCredentials>
FollowingServerCredentials(std::shared_ptr<const TlsWatch> watch,
                           bool takes_tokens);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_FOLLOWING_SERVER_CREDENTIALS_H_
