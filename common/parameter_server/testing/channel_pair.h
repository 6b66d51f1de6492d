// MakeChannelPair connects two ranks of a test, both in this process.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_TESTING_CHANNEL_PAIR_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_TESTING_CHANNEL_PAIR_H_

#include <cstdint>
#include <memory>

#include "common/transport/channel.h"
#include "common/transport/shared_segment.h"

namespace ringmaster {

struct ChannelPair {
  std::unique_ptr<Channel> first;
  std::unique_ptr<Channel> second;
};

// One of two ranks, and what the other reads in place; may be null.
struct ChannelEnd {
  int rank = 0;
  const SharedSegment* arena = nullptr;
};

// Over `transport`. A failure ends the test's process.
[[nodiscard]] ChannelPair MakeChannelPair(Transport transport,
                                          const ChannelEnd& first,
                                          const ChannelEnd& second);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_TESTING_CHANNEL_PAIR_H_
