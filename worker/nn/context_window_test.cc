#include "worker/nn/context_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> Filled(const std::vector<int32_t>& context,
                            WindowPadding padding, size_t expected_count) {
  std::vector<int32_t> window = {9, 9, 9};
  EXPECT_EQ(FillWindow(context, padding, absl::MakeSpan(window)),
            expected_count);
  return window;
}

TEST(FillWindowTest, PadsAShortText) {
  EXPECT_THAT(Filled({1, 2}, WindowPadding::kBefore, 2), ElementsAre(0, 1, 2));
  EXPECT_THAT(Filled({1, 2}, WindowPadding::kAfter, 2), ElementsAre(1, 2, 0));
  EXPECT_THAT(Filled({}, WindowPadding::kAfter, 0), ElementsAre(0, 0, 0));
}

TEST(FillWindowTest, KeepsTheEndOfALongOne) {
  for (const WindowPadding padding :
       {WindowPadding::kBefore, WindowPadding::kAfter}) {
    EXPECT_THAT(Filled({1, 2, 3, 4, 5}, padding, 3), ElementsAre(3, 4, 5));
  }
}

}  // namespace
}  // namespace ringmaster
