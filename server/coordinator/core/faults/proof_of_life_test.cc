#include "server/coordinator/core/faults/proof_of_life.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "absl/time/time.h"

namespace ringmaster::coordinator {
namespace {

MonotonicTime At(int64_t seconds) {
  return MonotonicTime::FromNanos(seconds * 1'000'000'000);
}

TEST(ProofOfLifeTest, OneReportProvesNothing) {
  ProofOfLife proof;
  EXPECT_EQ(proof.ProvenAt(1), std::nullopt);
  proof.OnReport(1, 5, At(1));
  EXPECT_EQ(proof.ProvenAt(1), std::nullopt);
}

TEST(ProofOfLifeTest, TwoStepsMoreProveLifeWhenTheLowerWasLastHeard) {
  ProofOfLife proof;
  proof.OnReport(1, 5, At(1));
  proof.OnReport(1, 5, At(3));
  proof.OnReport(1, 7, At(9));
  EXPECT_EQ(proof.ProvenAt(1), At(3));
}

TEST(ProofOfLifeTest, OneStepMoreProvesNoMoreThanTheReportBeforeTheLast) {
  ProofOfLife proof;
  proof.OnReport(1, 5, At(1));
  proof.OnReport(1, 6, At(4));
  EXPECT_EQ(proof.ProvenAt(1), std::nullopt);
  proof.OnReport(1, 6, At(5));
  proof.OnReport(1, 7, At(9));
  EXPECT_EQ(proof.ProvenAt(1), At(1));
  proof.OnReport(1, 8, At(10));
  EXPECT_EQ(proof.ProvenAt(1), At(5));
}

TEST(ProofOfLifeTest, RepeatedAndLateReportsRenewNothing) {
  ProofOfLife proof;
  proof.OnReport(1, 5, At(1));
  proof.OnReport(1, 7, At(2));
  proof.OnReport(1, 7, At(50));
  proof.OnReport(1, 3, At(60));
  EXPECT_EQ(proof.ProvenAt(1), At(1));
  // The late report of 3 does not count as a moment when nobody had more steps.
  proof.OnReport(1, 8, At(70));
  EXPECT_EQ(proof.ProvenAt(1), At(1));
}

TEST(ProofOfLifeTest, ACheckpointIsOneStepHoweverHigh) {
  ProofOfLife proof;
  proof.OnReport(1, 0, At(1));
  proof.OnReport(1, 0, At(2));
  proof.OnReport(1, 500, At(3));
  EXPECT_EQ(proof.ProvenAt(1), std::nullopt);
  proof.OnReport(1, 501, At(4));
  EXPECT_EQ(proof.ProvenAt(1), At(2));
}

TEST(ProofOfLifeTest, GenerationsAreApart) {
  ProofOfLife proof;
  proof.OnReport(1, 5, At(1));
  proof.OnReport(1, 7, At(2));
  EXPECT_EQ(proof.ProvenAt(2), std::nullopt);
  proof.OnReport(2, 9, At(3));
  EXPECT_EQ(proof.ProvenAt(1), std::nullopt);
  EXPECT_EQ(proof.ProvenAt(2), std::nullopt);
}

// Members that contribute, record and apply at random, and report at random:
// no proof is ever later than the true time of anybody's last record.
TEST(ProofOfLifeTest, NeverProvesMoreThanWasTrue) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    constexpr int kWorld = 3;
    std::vector<int64_t> contributed(kWorld);
    std::vector<int64_t> recorded(kWorld);
    std::vector<int64_t> applied(kWorld);
    // When each last proved itself to be alive.
    std::vector<int64_t> acted(kWorld, 0);
    ProofOfLife proof;
    int dead = -1;
    int proofs = 0;
    const auto least = [](const std::vector<int64_t>& of) {
      return *std::min_element(of.begin(), of.end());
    };
    for (int64_t now = 1; now < 3000; ++now) {
      const int rank = static_cast<int>(random() % kWorld);
      if (now == 2000) dead = static_cast<int>(random() % kWorld);
      if (rank == dead) continue;
      acted[rank] = now;
      const int64_t step = applied[rank] + 1;
      if (random() % 3 == 0) {
        proof.OnReport(1, applied[rank], At(now));
        const auto proven = proof.ProvenAt(1);
        if (!proven.has_value()) continue;
        ++proofs;
        if (dead >= 0) {
          ASSERT_LE(*proven, At(acted[dead])) << seed;
        }
      } else if (contributed[rank] < step) {
        contributed[rank] = step;
      } else if (recorded[rank] < step) {
        if (least(contributed) >= step) recorded[rank] = step;
      } else if (least(recorded) >= step) {
        applied[rank] = step;
      }
    }
    EXPECT_GT(proofs, 100);
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
