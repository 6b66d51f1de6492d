// SendRaw lets tests send a server bytes that are not valid messages.
#ifndef RINGMASTER_COMMON_TRANSPORT_TESTING_SEND_RAW_H_
#define RINGMASTER_COMMON_TRANSPORT_TESTING_SEND_RAW_H_

#include <string>
#include <string_view>

#include "common/transport/unique_fd.h"

namespace ringmaster {

// A connection to `port` of 127.0.0.1.
[[nodiscard]] UniqueFd ConnectLoopback(int port);

// Sends `bytes` to a port of loopback, and no more, and returns what comes back
// until the other side closes, or says nothing for 40 s.
std::string SendRaw(int port, std::string_view bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_TESTING_SEND_RAW_H_
