#include "worker/nn/cuda/matmul_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/checksum/crc32c.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

MatmulPlans SomePlans() {
  MatmulPlans plans = {"NVIDIA H200", 130100, {}};
  plans.algorithms["nt 1024x768x3072 bf16 bias"] = {
      .words = {1, 2, 3, 4, 5, 6, 7, 0xfedcba9876543210},
      .workspace_bytes = 99};
  plans.algorithms["nn 1x2x3 f32"] = {};
  return plans;
}

// `text` before its last line, with a last line that fits.
std::string Sealed(const std::string& text) {
  return absl::StrCat(text, "end ", absl::Hex(Crc32c(text), absl::kZeroPad8),
                      "\n");
}

TEST(MatmulPlansTest, TextIsAsDocumented) {
  EXPECT_EQ(FormatMatmulPlans(SomePlans()),
            Sealed("ringmaster matmul plans 1\n"
                   "gpu NVIDIA H200\n"
                   "library 130100\n"
                   "plan 0 0000000000000000 0000000000000000 0000000000000000 "
                   "0000000000000000 0000000000000000 0000000000000000 "
                   "0000000000000000 0000000000000000 nn 1x2x3 f32\n"
                   "plan 99 0000000000000001 0000000000000002 0000000000000003 "
                   "0000000000000004 0000000000000005 0000000000000006 "
                   "0000000000000007 fedcba9876543210 nt 1024x768x3072 bf16 "
                   "bias\n"));
}

TEST(MatmulPlansTest, TextIsReadBack) {
  for (const MatmulPlans& plans : {SomePlans(), MatmulPlans{"A", 1, {}}}) {
    const auto read = ParseMatmulPlans(FormatMatmulPlans(plans));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, plans);
  }
}

TEST(MatmulPlansTest, EveryTextThatWasCutOffIsRefused) {
  const std::string text = FormatMatmulPlans(SomePlans());
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(ParseMatmulPlans(text.substr(0, length)).status().code(),
              absl::StatusCode::kDataLoss)
        << length;
  }
}

TEST(MatmulPlansTest, EveryChangedByteIsFound) {
  const std::string text = FormatMatmulPlans(SomePlans());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(ParseMatmulPlans(changed).status().code(),
              absl::StatusCode::kDataLoss)
        << i;
  }
}

TEST(MatmulPlansTest, SaysWhichLineItCannotRead) {
  const std::string head =
      "ringmaster matmul plans 1\ngpu NVIDIA H200\nlibrary 130100\n";
  const std::string words =
      "1111111111111111 1111111111111111 1111111111111111 1111111111111111 "
      "1111111111111111 1111111111111111 1111111111111111 ";
  const std::string plan =
      "plan 1 " + words + "1111111111111111 nn 1x2x3 f32\n";
  ASSERT_TRUE(ParseMatmulPlans(Sealed(head + plan)).ok());
  struct Case {
    std::string text;
    const char* words;
  };
  for (const Case& c : {
           Case{"ringmaster matmul plans 2\n", "line 1 is not"},
           Case{"ringmaster matmul plans 1\n", "line 1 is the last"},
           Case{"ringmaster matmul plans 1\ngpu \n", "line 2 names no GPU"},
           Case{"ringmaster matmul plans 1\ngpu A\nlibrary x\n",
                "line 3 has no version"},
           Case{head + "plan\n", "line 4 is no plan"},
           Case{head + "plan 1 " + words + "1111111111111111\n", "line 4"},
           Case{head + "plan -1 " + words + "1111111111111111 nn\n", "line 4"},
           Case{head + "plan 1 " + words + "111111111111111x nn\n", "line 4"},
           Case{head + "plan 1 " + words + "111 nn\n", "line 4"},
           Case{head + plan + plan, "line 5 is no plan"},
       }) {
    const auto read = ParseMatmulPlans(Sealed(c.text));
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << c.text;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(c.words));
  }
}

TEST(MatmulPlansTest, FileIsNamedAfterWhatItIsFor) {
  EXPECT_EQ(MatmulPlansFileName("NVIDIA H200", 130100),
            "matmul_NVIDIA_H200_130100.txt");
  EXPECT_EQ(MatmulPlansFileName("../x", 1), "matmul_.._x_1.txt");
}

}  // namespace
}  // namespace ringmaster
