#include "server/coordinator/core/faults/step_claims.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace ringmaster::coordinator {
namespace {

using Indices = std::vector<size_t>;

// It stands after `applied`, and holds the next step too if `is_complete`.
StepClaim At(int64_t applied, bool is_complete = false) {
  return {applied, applied + (is_complete ? 1 : 0)};
}

// It is gone, and had reported a step.
StepClaim Gone(int64_t applied) { return {applied, std::nullopt}; }

StepClaim Loaded(int64_t step) { return {0, step, /*is_loaded=*/true}; }

void ExpectBelieved(const std::vector<StepClaim>& claims) {
  const DisbelievedClaims result = Disbelieved(claims);
  EXPECT_EQ(result.refuted, Indices());
  EXPECT_EQ(result.doubtful, Indices());
}

void ExpectRefuted(const std::vector<StepClaim>& claims,
                   const Indices& refuted) {
  const DisbelievedClaims result = Disbelieved(claims);
  EXPECT_EQ(result.refuted, refuted);
  EXPECT_EQ(result.doubtful, Indices());
}

void ExpectDoubtful(const std::vector<StepClaim>& claims,
                    const Indices& doubtful) {
  const DisbelievedClaims result = Disbelieved(claims);
  EXPECT_EQ(result.refuted, Indices());
  EXPECT_EQ(result.doubtful, doubtful);
}

TEST(StepClaimsTest, WhoeverStandsWithinOneStepIsBelieved) {
  ExpectBelieved({});
  ExpectBelieved({At(7)});
  ExpectBelieved({At(7), At(6, true), At(6, true), Gone(7)});
  ExpectBelieved({At(6), At(6, true), Gone(5)});
}

TEST(StepClaimsTest, WhoeverHoldsNothingContradictsNobody) {
  ExpectBelieved({At(7), Gone(0), {}, At(7)});
}

TEST(StepClaimsTest, OfThreeTheOneAheadIsRefuted) {
  ExpectRefuted({At(7), At(10), At(7)}, {1});
}

TEST(StepClaimsTest, OfThreeTheOneBehindIsRefuted) {
  ExpectRefuted({At(7), At(7), At(4)}, {2});
}

TEST(StepClaimsTest, OneThatIsGoneIsRefutedByTwo) {
  ExpectRefuted({At(7), Gone(9), At(7)}, {1});
}

TEST(StepClaimsTest, OneThatIsGoneBearsWitness) {
  ExpectRefuted({At(7), At(4), Gone(7)}, {1});
}

TEST(StepClaimsTest, WhoeverTakesItsOwnWordBackIsRefutedByThat) {
  ExpectRefuted({At(7), {9, 7}}, {1});
}

TEST(StepClaimsTest, OfTwoNobodyCanTell) {
  ExpectDoubtful({At(7), At(4)}, {0, 1});
  ExpectDoubtful({At(7), Gone(8)}, {0, 1});
}

TEST(StepClaimsTest, OthersThatAgreeWithBothAreBelieved) {
  ExpectDoubtful({At(7), At(6, true), At(6, true), At(6)}, {0, 3});
}

TEST(StepClaimsTest, TwoAgainstTwoLeaveADoubt) {
  ExpectDoubtful({At(7), At(7), At(4), At(4)}, {0, 1, 2, 3});
}

TEST(StepClaimsTest, TwoAgainstThreeAreRefuted) {
  ExpectRefuted({At(7), At(7), At(4), At(7), At(4)}, {2, 4});
}

TEST(StepClaimsTest, TwoFalseOnesThatAreFarApartAreRefutedByThree) {
  ExpectRefuted({At(7), At(9), At(7), At(5), At(7)}, {1, 3});
}

TEST(StepClaimsTest, ALoadedCheckpointGoesWithItsOwnStepAlone) {
  ExpectBelieved({Loaded(40), At(40), At(40, true)});
  ExpectBelieved({Loaded(40), Loaded(30), At(0)});
  ExpectRefuted({Loaded(90), At(40), At(40)}, {0});
  ExpectDoubtful({Loaded(40), At(45)}, {0, 1});
}

// Honest members of any size, one false claim: no other is ever refuted, and the
// false one is believed only if it can be true.
TEST(StepClaimsTest, OneFalseClaimCostsNobodyElseItsWord) {
  std::mt19937 random(1);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 20'000; ++round) {
    const int64_t step = draw(5, 20);
    // Some have applied the step, which all hold; or some hold the next.
    const bool is_before = draw(0, 1) == 1;
    std::vector<StepClaim> claims;
    const int64_t size = draw(1, 8);
    for (int64_t i = 0; i < size; ++i) {
      claims.push_back(is_before         ? At(step, draw(0, 1) == 1)
                       : draw(0, 1) == 1 ? At(step)
                                         : At(step - 1, true));
      if (draw(0, 3) == 0) claims.back() = Gone(claims.back().applied);
    }
    const auto liar = static_cast<size_t>(draw(0, size - 1));
    claims[liar] = draw(0, 3) == 0 ? Gone(step + draw(-3, 3))
                                   : At(step + draw(-4, 3), draw(0, 1) == 1);
    const DisbelievedClaims result = Disbelieved(claims);
    for (const size_t refuted : result.refuted) EXPECT_EQ(refuted, liar);
    if (!result.doubtful.empty()) {
      EXPECT_EQ(result.doubtful.size(), 2u);
      EXPECT_TRUE(result.doubtful[0] == liar || result.doubtful[1] == liar);
    }
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
