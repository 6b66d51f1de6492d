#include "server/coordinator/core/placement/cost_agreement.h"

#include <gtest/gtest.h>

namespace ringmaster::coordinator {
namespace {

MachineCosts Times(double factor) {
  MachineCosts costs;
  for (PathCost* path :
       {&costs.shared_memory, &costs.unix_socket, &costs.tcp, &costs.remote}) {
    path->latency *= factor;
    path->seconds_per_byte *= factor;
  }
  costs.reduce_seconds_per_byte *= factor;
  return costs;
}

TEST(CostAgreementTest, WithoutMeasurementsThereIsNothingToAgreeOn) {
  EXPECT_EQ(AgreeOnCosts({}), std::nullopt);
}

TEST(CostAgreementTest, OneMeasurementIsTheAgreement) {
  EXPECT_EQ(AgreeOnCosts({Times(3)}), Times(3));
}

TEST(CostAgreementTest, OneDisturbedMeasurementDecidesNothing) {
  EXPECT_EQ(AgreeOnCosts({Times(1), Times(50), Times(1.1)}), Times(1.1));
  EXPECT_EQ(AgreeOnCosts({Times(50), Times(1)}), Times(1));
  EXPECT_EQ(AgreeOnCosts({Times(3), Times(50), Times(2), Times(1)}), Times(2));
}

TEST(CostAgreementTest, EachNumberIsAgreedOnByItself) {
  MachineCosts slow_tcp;
  slow_tcp.tcp.latency = 1e-3;
  MachineCosts slow_sum;
  slow_sum.reduce_seconds_per_byte = 1e-8;
  MachineCosts few_cores;
  few_cores.cores = 1;
  EXPECT_EQ(AgreeOnCosts({slow_tcp, slow_sum, few_cores}), MachineCosts());
}

}  // namespace
}  // namespace ringmaster::coordinator
