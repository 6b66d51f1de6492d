#include "server/ctl/render/sample_view.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::TextSample SampleOf(const std::string& prompt, const std::string& text) {
  v1::TextSample sample;
  sample.set_step(50);
  sample.set_prompt(prompt);
  sample.set_text(text);
  return sample;
}

TEST(SampleLinesTest, ShowThePromptAndWhatFollowsIt) {
  EXPECT_THAT(SampleLines(SampleOf("The", " sea\nis\tcalm")),
              ElementsAre("sample after step 50:", "The sea", "is\tcalm"));
}

TEST(SampleLinesTest, CannotSteerTheTerminal) {
  EXPECT_THAT(
      SampleLines(SampleOf("a", "\x1b[2J\r\x07\x7f\xc2\x9b z")),
      ElementsAre("sample after step 50:", "a\\x1b[2J\\x0d\\x07\\x7f\\x9b z"));
}

TEST(SampleFrameTest, FramesTheTextWithinTheWidth) {
  const auto lines =
      SampleFrame(SampleOf("The", " sea is calm"), {.width = 28}, 10);
  EXPECT_EQ("\n" + absl::StrJoin(lines, "\n"), R"(
+- sample after step 50 ---+
| The sea is calm          |
+--------------------------+)");
}

TEST(SampleFrameTest, WrapsWordsAndCutsWhatHasNoRoom) {
  const auto lines =
      SampleFrame(SampleOf("The", " sea is calm to-night. The tide\tis full"),
                  {.width = 28, .unicode = true}, 4);
  EXPECT_EQ("\n" + absl::StrJoin(lines, "\n"), R"(
┌─ sample after step 50 ───┐
│ The sea is calm          │
│ ...                      │
└──────────────────────────┘)");
}

TEST(SampleFrameTest, IsNeverWiderThanEightyColumnsAndNeedsThreeLines) {
  const v1::TextSample sample = SampleOf("The", std::string(1000, 'x'));
  for (const std::string& line :
       SampleFrame(sample, {.width = 1 << 20}, 1 << 20))
    EXPECT_EQ(DisplayWidth(line), 80);
  for (const std::string& line : SampleFrame(sample, {.width = 10}, 5))
    EXPECT_EQ(DisplayWidth(line), 10);
  EXPECT_THAT(SampleFrame(sample, {}, 3), SizeIs(3));
  EXPECT_THAT(SampleFrame(sample, {}, 2), IsEmpty());
  EXPECT_THAT(SampleFrame(sample, {.width = 4}, 9), IsEmpty());
}

}  // namespace
}  // namespace ringmaster::ctl
