#include "common/transport/channel.h"

namespace ringmaster {

const char* TransportName(Transport transport) {
  switch (transport) {
    case Transport::kLoopback:
      return "loopback";
    case Transport::kTcp:
      return "tcp";
    case Transport::kUnix:
      return "unix";
    case Transport::kSharedMemory:
      return "shared_memory";
  }
  return "unknown";
}

}  // namespace ringmaster
