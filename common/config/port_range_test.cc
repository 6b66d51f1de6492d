#include "common/config/port_range.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(PortRangeTest, HasBothEnds) {
  const absl::StatusOr<PortRange> range = ParsePortRange("29500-29503");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(*range, (PortRange{29500, 29503}));
  EXPECT_EQ(range->count(), 4);
  EXPECT_EQ(ParsePortRange("7-7")->count(), 1);
  EXPECT_EQ(ParsePortRange("1-65535")->count(), 65535);
}

TEST(PortRangeTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "5", "-", "5-", "-5", "0-5", "9-8", "1-65536", "a-b", "+1-5"}) {
    EXPECT_EQ(ParsePortRange(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace ringmaster
