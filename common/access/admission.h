// The gRPC side of AccessControl: calls are admitted before any handler hears of them.
#ifndef RINGMASTER_COMMON_ACCESS_ADMISSION_H_
#define RINGMASTER_COMMON_ACCESS_ADMISSION_H_

#include <memory>
#include <string>

#include "common/access/access_control.h"
#include "common/access/refusal_log.h"

namespace grpc {
class AuthMetadataProcessor;
class ServerContextBase;
}  // namespace grpc

namespace ringmaster {

// Admits the calls of every service of a server, health and reflection too. Those that
// are refused go to `refusals`.
[[nodiscard]] std::shared_ptr<grpc::AuthMetadataProcessor> MakeAdmission(
    std::shared_ptr<const AccessControl> access,
    std::shared_ptr<RefusalLog> refusals);

// The credentials that the caller showed, and its place: "10.0.0.7", or "unix".
[[nodiscard]] Credentials CredentialsOf(const grpc::ServerContextBase& context);
[[nodiscard]] std::string AddressOf(const grpc::ServerContextBase& context);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_ACCESS_ADMISSION_H_
