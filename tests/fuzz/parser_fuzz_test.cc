// Inputs of a fixed seed for each parser, a few seconds each; parser_fuzz runs more.
#include <cstdlib>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_run.h"
#include "tests/fuzz/parser.h"
#include "tests/fuzz/parser_input.h"

namespace ringmaster::fuzz {
namespace {

// The share of the data plane, which has a test of its own: wire_fuzz_test.
constexpr char kWire[] = "wire";
constexpr absl::Duration kLimit = absl::Seconds(5);
constexpr absl::Duration kFullLimit = absl::Seconds(30);

class ParserFuzzTest : public ::testing::TestWithParam<const Parser*> {};

TEST_P(ParserFuzzTest, NoInputMakesItDoWhatItMustNot) {
  if (GetParam()->name == kWire) GTEST_SKIP() << "wire_fuzz_test runs it";
  const bool is_full = std::getenv("RINGMASTER_FULL_TESTS") != nullptr;
  const absl::StatusOr<uint64_t> count =
      FuzzParser(*GetParam(), {.limit = is_full ? kFullLimit : kLimit});
  EXPECT_TRUE(count.ok()) << count.status();
}

TEST_P(ParserFuzzTest, ItTakesSomeOfItsCorpusAndRefusesSomeOfWhatFollows) {
  int taken = 0;
  for (const std::string& input : GetParam()->corpus)
    taken += GetParam()->try_input(input);
  EXPECT_GT(taken, 0);
  int refused = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const Bytes input = ParserInput(*GetParam(), 1, i);
    refused += !GetParam()->try_input(
        {reinterpret_cast<const char*>(input.data()), input.size()});
  }
  EXPECT_GT(refused, 0);
}

TEST_P(ParserFuzzTest, InputsFollowFromTheSeed) {
  EXPECT_EQ(ParserInput(*GetParam(), 4, 5), ParserInput(*GetParam(), 4, 5));
  std::set<Bytes> inputs;
  for (uint64_t i = 0; i < 20; ++i)
    inputs.insert(ParserInput(*GetParam(), 4, i));
  EXPECT_GT(inputs.size(), 5u);
}

std::vector<const Parser*> Pointers() {
  std::vector<const Parser*> pointers;
  for (const Parser& parser : Parsers()) pointers.push_back(&parser);
  return pointers;
}

INSTANTIATE_TEST_SUITE_P(Of, ParserFuzzTest, ::testing::ValuesIn(Pointers()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace ringmaster::fuzz
