#include "common/parameter_server/message.h"

#include <limits>
#include <string>

#include "common/plan/counter_random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

ShardMessage Full() {
  ShardMessage message;
  message.op = ShardOp::kValues;
  message.part = StatePart::kSecondMoment;
  message.done = DoneKind::kDrained;
  message.wire = DType::kBFloat16;
  message.wants_drain = true;
  message.shard = 3;
  message.bucket = 70000;
  message.rank = 12;
  message.step = int64_t{1} << 40;
  message.value = 1.5e300;
  message.count = 65536;
  return message;
}

TEST(ShardMessageTest, ComesBackAsItWas) {
  EXPECT_EQ(*ParseShardMessage(EncodeShardMessage(Full())), Full());
  EXPECT_EQ(*ParseShardMessage(EncodeShardMessage(ShardMessage())),
            ShardMessage());
}

TEST(ShardMessageTest, KeepsANormThatIsNotFinite) {
  ShardMessage message = Full();
  message.value = std::numeric_limits<double>::infinity();
  EXPECT_EQ(*ParseShardMessage(EncodeShardMessage(message)), message);
}

TEST(ShardMessageTest, EveryOpHasANameAndTravels) {
  for (int op = 1; op <= static_cast<int>(ShardOp::kUpdated); ++op) {
    ShardMessage message = Full();
    message.op = static_cast<ShardOp>(op);
    EXPECT_STRNE(ShardOpName(message.op), "unknown");
    EXPECT_EQ(*ParseShardMessage(EncodeShardMessage(message)), message);
  }
  EXPECT_STREQ(ShardOpName(static_cast<ShardOp>(99)), "unknown");
}

// Expects that `message` is refused, with an error that contains `named`.
void ExpectRefused(const ShardMessage& message, const std::string& named) {
  const absl::Status status =
      ParseShardMessage(EncodeShardMessage(message)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(named));
}

TEST(ShardMessageTest, RefusesWhatCannotBe) {
  ShardMessage message = Full();
  message.op = static_cast<ShardOp>(12);
  ExpectRefused(message, "op 12");
  message = Full();
  message.wire = DType::kInt32;
  ExpectRefused(message, "wire 5");
  message = Full();
  message.done = static_cast<DoneKind>(0);
  ExpectRefused(message, "done 0");
  message = Full();
  message.step = -1;
  ExpectRefused(message, "step -1");
  message = Full();
  message.count = -5;
  ExpectRefused(message, "-5 elements");
  message = Full();
  message.count = kMaxShardMessageElems + 1;
  ExpectRefused(message, "elements");
  message = Full();
  message.bucket = -2;
  ExpectRefused(message, "values (shard 3");
}

TEST(ShardMessageTest, DamageIsRefusedOrIsAnotherMessage) {
  const ShardMessageBytes whole = EncodeShardMessage(Full());
  int refused = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    ShardMessageBytes bytes = whole;
    for (uint64_t damage = 0; damage <= i % 3; ++damage) {
      const uint64_t bits = CounterRandom(i, damage);
      bytes[bits % bytes.size()] ^= static_cast<std::byte>(bits >> 32);
    }
    const auto message = ParseShardMessage(bytes);
    refused += message.ok() ? 0 : 1;
    // An accepted message loses nothing of its bytes.
    if (message.ok()) {
      EXPECT_EQ(EncodeShardMessage(*message), bytes);
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(ShardMessageTest, SaysWhatItIs) {
  ShardMessage message;
  message.op = ShardOp::kPush;
  message.shard = 1;
  message.bucket = 3;
  message.step = 12;
  message.count = 65536;
  EXPECT_EQ(DescribeShardMessage(message),
            "push of bucket 3 (shard 1, step 12, 65536 elements)");
  message.op = ShardOp::kOpen;
  message.bucket = -1;
  EXPECT_EQ(DescribeShardMessage(message),
            "open (shard 1, step 12, 65536 bytes)");
}

}  // namespace
}  // namespace ringmaster
