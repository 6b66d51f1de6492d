// Inputs of a fixed seed for the parsers of the data plane: about 10 s of them,
// or a minute where RINGMASTER_FULL_TESTS asks for all. wire_fuzz runs more.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_run.h"
#include "tests/fuzz/wire_fuzzer.h"
#include "tests/fuzz/wire_input.h"
#include "tests/fuzz/wire_target.h"

namespace ringmaster::fuzz {
namespace {

using ::testing::HasSubstr;

// The share for instrumented builds.
#ifdef RINGMASTER_SANITIZED
constexpr uint64_t kIterations = 800'000;
#else
constexpr uint64_t kIterations = 2'500'000;
#endif
constexpr uint64_t kTimesInFull = 6;

TEST(WireFuzzTest, NoInputMakesAParserDoWhatItMustNot) {
  const bool is_full = std::getenv("RINGMASTER_FULL_TESTS") != nullptr;
  const absl::StatusOr<uint64_t> count =
      Fuzz({.seed = 1,
            .iterations = is_full ? kTimesInFull * kIterations : kIterations},
           InputOf, LLVMFuzzerTestOneInput);
  EXPECT_TRUE(count.ok()) << count.status();
}

TEST(WireFuzzTest, EveryValidInputIsAccepted) {
  Random random(1);
  for (int kind = 0; kind < kWireKinds; ++kind) {
    for (int i = 0; i < 300; ++i) {
      const Bytes input = ValidInput(static_cast<WireKind>(kind), random);
      EXPECT_TRUE(TryWireInput(input)) << "kind " << kind << ", number " << i;
    }
  }
}

TEST(WireFuzzTest, NoPartOfAValidInputIsAccepted) {
  Random random(2);
  for (int kind = 0; kind < kWireKinds; ++kind) {
    const Bytes input = ValidInput(static_cast<WireKind>(kind), random);
    for (size_t size = 0; size < input.size(); ++size) {
      EXPECT_FALSE(TryWireInput(std::span(input).first(size)))
          << "kind " << kind << ", " << size << " of " << input.size();
    }
  }
}

TEST(WireFuzzTest, AFlippedBitOfAHeaderIsRefused) {
  Random random(3);
  const Bytes input = ValidInput(WireKind::kFrame, random);
  for (size_t at = 1 + kExpectationBytes; at < input.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = input;
      damaged[at] ^= std::byte{1} << bit;
      EXPECT_FALSE(TryWireInput(damaged)) << "byte " << at << ", bit " << bit;
    }
  }
}

TEST(WireFuzzTest, AFlippedBitOfACheckedOrSealedFrameIsFoundWhereverItIs) {
  Random random(4);
  for (const WireKind kind :
       {WireKind::kCheckedFrames, WireKind::kSealedFrames}) {
    const Bytes input = ValidInput(kind, random);
    const size_t frames = std::to_integer<size_t>(input[1]) + 1;
    const size_t begin = 2 + frames * kExpectationBytes + kChunks;
    for (size_t at = begin; at < input.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        Bytes damaged = input;
        damaged[at] ^= std::byte{1} << bit;
        EXPECT_FALSE(TryWireInput(damaged))
            << "kind " << static_cast<int>(kind) << ", byte " << at << ", bit "
            << bit;
      }
    }
  }
}

TEST(WireFuzzTest, InputsFollowFromTheSeed) {
  EXPECT_EQ(InputOf(4, 5), InputOf(4, 5));
  EXPECT_NE(InputOf(4, 5), InputOf(4, 6));
  EXPECT_NE(InputOf(4, 5), InputOf(5, 5));
}

TEST(WireFuzzTest, NamesTheInputThatATargetDoesNotSurvive) {
  // The third from the first is input 12.
  static const Bytes* const kFatal = new Bytes(InputOf(9, 12));
  const auto target = [](const uint8_t* bytes, size_t size) {
    const auto input = std::as_bytes(std::span(bytes, size));
    if (Bytes(input.begin(), input.end()) == *kFatal) std::abort();
    return 0;
  };
  const absl::Status status =
      Fuzz({.seed = 9, .first = 10, .iterations = 5}, InputOf, target).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("input 12 of seed 9"));
  EXPECT_THAT(message, HasSubstr("signal 6"));
  EXPECT_THAT(message, HasSubstr("--seed=9 --first=12 --iterations=1"));
  EXPECT_EQ(*Fuzz({.seed = 9, .first = 13, .iterations = 2}, InputOf, target),
            2u);
}

TEST(WireFuzzTest, AnInputThatTakesForEverEndsTheRun) {
  const absl::Status status =
      Fuzz({.iterations = 1}, InputOf, [](const uint8_t*, size_t) {
        for (std::atomic<int> count = 0;;) ++count;
        return 0;
      }).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("processor time"));
}

#ifndef RINGMASTER_SANITIZED
TEST(WireFuzzTest, AnInputThatTakesAllMemoryEndsTheRun) {
  const absl::Status status =
      Fuzz({.iterations = 1}, InputOf, [](const uint8_t*, size_t) {
        for (std::vector<std::string> all;;)
          all.emplace_back(size_t{1} << 20, 'x');
        return 0;
      }).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("signal 6"));
}
#endif

}  // namespace
}  // namespace ringmaster::fuzz
