// The meaning of gRPC's words about a connection that could not be made: it gives one code
// to all of them, and its words are about bytes.
#ifndef RINGMASTER_COMMON_RPC_CONNECT_FAILURE_H_
#define RINGMASTER_COMMON_RPC_CONNECT_FAILURE_H_

#include <string_view>

namespace ringmaster {

// "it does not speak TLS, and this program does": who is at that address, and what does not
// fit. "" if `text` tells nothing of that. Pure.
[[nodiscard]] std::string_view MeaningOfConnectFailure(std::string_view text);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_CONNECT_FAILURE_H_
