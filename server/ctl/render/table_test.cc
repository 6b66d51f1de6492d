#include "server/ctl/render/table.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;

TEST(TextTableTest, AlignsColumnsAndLeavesNoTrailingBlanks) {
  TextTable table({{"JOB"}, {"STEP", Align::kRight}, {"MESSAGE"}});
  table.AddRow({"mlp-1", "7", ""});
  table.AddRow({"long-name-2", "12345", "waits"});
  EXPECT_THAT(table.Lines({}), ElementsAre("JOB           STEP  MESSAGE",  //
                                           "mlp-1            7",           //
                                           "long-name-2  12345  waits"));
}

TEST(TextTableTest, CutsRowsToTheWidth) {
  TextTable table({{"A"}, {"B"}});
  table.AddRow({"aaaa", "bbbb"});
  EXPECT_THAT(table.Lines({.width = 8}), ElementsAre("A     B", "aaaa ..."));
  EXPECT_THAT(table.Lines({.width = 8, .unicode = true}),
              ElementsAre("A     B", "aaaa  b…"));
}

TEST(TextTableTest, PadsByWhatIsShown) {
  const Style style{.color = true};
  TextTable table({{"A"}, {"B"}});
  table.AddRow({Paint(style, Color::kRed, "xy"), "1"});
  table.AddRow({"wide", "2"});
  EXPECT_EQ(table.Lines(style)[1], "\x1b[31mxy\x1b[0m    1");
}

TEST(TextTableTest, KnowsWhetherItHasRows) {
  TextTable table({{"A"}});
  EXPECT_TRUE(table.empty());
  table.AddRow({"1"});
  EXPECT_FALSE(table.empty());
}

}  // namespace
}  // namespace ringmaster::ctl
