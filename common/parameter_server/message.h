// ShardMessage is a message between workers, the servers of shards and their
// backups.
//
// A message is one frame of kShardMessageBytes; where it has elements, these
// follow in frames of at most kMaxShardFrameBytes. Frames of a link are
// numbered from 1 in each direction, so a receiver knows the header of each in
// advance (frame.h).
//
// A worker's link with a primary, in a generation:
//   worker   Open(shard) with a ShardDescription, for each of its shards
//   rank 0   Load(bucket, part) of all, if nobody holds the shard (placement)
//   worker   Pull(bucket, part): the parameters it begins with
//   primary  Values(bucket, part), once it has the shard: from rank 0, or from
//            the source
//   then, step after step, for each bucket in the order in which gradients become
//   final:
//   worker   Push(bucket) with the gradient
//   primary  Values(bucket): the parameters after the update; with the squared
//            norm of the gradient that it was made with
//   if gradients are clipped by their global norm, an update waits for it:
//   primary  Norm(shard): the squared norm of the shard's summed gradient
//   worker   Scale(shard): the factor for gradients; not finite: the update is
//            left out
//   and at the end
//   worker   Done(how), once: it needs nothing more in this generation
// A link between two that hold shards, one of which gives the other copies:
//   taker    for each shard, Pull(shard) if it needs the state, to the host
//            said to have it; a backup that need not ask its primary tells it
//            Updated(shard), and no push is taken before one or the other
//   giver    Open(shard), State(bucket, part) of all; `value`: the number of
//            updates in it
//   primary  Update(bucket) with the summed gradient (bsp) or a worker's (ssp,
//            async), and what the update depends on
//   backup   Updated(bucket): answers to workers may go
//   giver    Done: nothing more comes
// A message that does not fit (another generation's, step's or shape's) ends
// the link, with both sides named.
//
// Pure; encode and parse are total.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/dtype.h"

namespace ringmaster {

inline constexpr size_t kShardMessageBytes = 48;
inline constexpr int64_t kMaxShardFrameBytes = 256 << 10;
inline constexpr int64_t kMaxShardMessageElems = int64_t{1} << 40;

enum class ShardOp : uint8_t {
  kOpen = 1,
  kLoad,
  kPull,
  kValues,
  kPush,
  kNorm,
  kScale,
  kDone,
  kState,
  kUpdate,
  kUpdated,
};

// "open", "load", ...; "unknown" outside the enum.
[[nodiscard]] const char* ShardOpName(ShardOp op);

// A part of a bucket's state.
enum class StatePart : uint8_t { kParameters = 0, kFirstMoment, kSecondMoment };

// The end of a worker's generation.
enum class DoneKind : uint8_t { kFinished = 1, kStopped, kDrained };

struct ShardMessage {
  ShardOp op = ShardOp::kOpen;
  StatePart part = StatePart::kParameters;
  DoneKind done = DoneKind::kFinished;  // kDone
  // The type that float32 elements travel as; only those of a push are
  // narrowed.
  DType wire = DType::kFloat32;
  // In kValues: the server wants to leave at the next boundary between steps.
  bool wants_drain = false;
  int32_t shard = 0;
  int32_t bucket = -1;  // of the plan
  // In kValues: the lowest rank whose gradient was not finite; -1: none. In
  // kUpdate: the rank that a single gradient comes from; -1: a sum.
  int32_t rank = -1;
  // The step that it belongs to; in kValues, that of the newest update in it.
  int64_t step = 0;
  // kValues, kNorm: squared norm; kScale, kUpdate: factor; kState: updates.
  double value = 0;
  int64_t count = 0;  // elements that follow; of kOpen: bytes

  friend bool operator==(const ShardMessage&, const ShardMessage&) = default;
};

using ShardMessageBytes = std::array<std::byte, kShardMessageBytes>;

[[nodiscard]] ShardMessageBytes EncodeShardMessage(const ShardMessage& message);
// FAILED_PRECONDITION: an unknown value, a negative count or step, more
// elements than kMaxShardMessageElems.
[[nodiscard]] absl::StatusOr<ShardMessage> ParseShardMessage(
    std::span<const std::byte, kShardMessageBytes> bytes);

// "push of bucket 3 (shard 1, step 12, 65536 elements)": for messages.
[[nodiscard]] std::string DescribeShardMessage(const ShardMessage& message);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_H_
