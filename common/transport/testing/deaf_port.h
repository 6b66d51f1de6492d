// DeafPort is a port of 127.0.0.1 that answers no connection, as one of a host
// that is gone: its queue is full, so the kernel drops what comes.
#ifndef RINGMASTER_COMMON_TRANSPORT_TESTING_DEAF_PORT_H_
#define RINGMASTER_COMMON_TRANSPORT_TESTING_DEAF_PORT_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "common/transport/socket_address.h"
#include "common/transport/tcp.h"
#include "common/transport/unique_fd.h"
#include "gtest/gtest.h"

namespace ringmaster {

class DeafPort {
 public:
  DeafPort() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in loopback = {};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&loopback),
                   sizeof(loopback)),
              0);
    EXPECT_EQ(listen(listener_.get(), /*backlog=*/0), 0);
    // The queue of this length holds one.
    auto only = BeginConnect(*LocalAddress(listener_.get()));
    EXPECT_TRUE(only.ok()) << only.status();
    if (only.ok()) queued_ = *std::move(only);
  }

  // "127.0.0.1:PORT"
  [[nodiscard]] std::string address() const {
    return LocalAddress(listener_.get())->ToString();
  }

 private:
  UniqueFd listener_;
  UniqueFd queued_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_TESTING_DEAF_PORT_H_
