#include "common/transport/testing/send_raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>

#include "common/transport/unique_fd.h"
#include "gtest/gtest.h"

namespace ringmaster {

UniqueFd ConnectLoopback(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience = {.tv_sec = 40, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)),
            0);
  return fd;
}

std::string SendRaw(int port, std::string_view bytes) {
  const UniqueFd fd = ConnectLoopback(port);
  EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  shutdown(fd.get(), SHUT_WR);
  std::string reply;
  std::array<char, 4096> piece = {};
  for (ssize_t got = 0;
       (got = recv(fd.get(), piece.data(), piece.size(), 0)) > 0;) {
    reply.append(piece.data(), static_cast<size_t>(got));
  }
  return reply;
}

}  // namespace ringmaster
