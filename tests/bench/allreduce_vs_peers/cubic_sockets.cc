// Stands before libc's `socket` for the program that it is linked into: gives the peers' TCP sockets the congestion control
// that ours choose on links inside a host. With BBR, where that is the kernel's default, peers would be measured at a
// fraction of their speed.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" __attribute__((visibility("default"))) int socket(int domain,
                                                             int type,
                                                             int protocol) {
  const int fd = static_cast<int>(syscall(SYS_socket, domain, type, protocol));
  constexpr char kControl[] = "cubic";
  if (fd >= 0 && (domain == AF_INET || domain == AF_INET6)) {
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kControl,
                     sizeof kControl - 1);
  }
  return fd;
}
