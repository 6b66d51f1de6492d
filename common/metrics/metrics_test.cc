#include "common/metrics/metrics.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(MetricRegistryTest, TheSameNameGivesTheSameObject) {
  MetricRegistry registry;
  Counter& steps = registry.counter("ringmaster_steps_total", "Steps done.");
  steps.Increment();
  registry.counter("ringmaster_steps_total", "another help").Add(2);
  EXPECT_EQ(steps.value(), 3);
  EXPECT_EQ(&steps, &registry.counter("ringmaster_steps_total", ""));
  Gauge& workers = registry.gauge("ringmaster_workers", "Workers alive.");
  EXPECT_EQ(&workers, &registry.gauge("ringmaster_workers", ""));
}

TEST(MetricRegistryTest, SamplesAreSortedAndComplete) {
  MetricRegistry registry;
  registry.gauge("ringmaster_workers", "Workers alive.").Set(2.5);
  registry.counter("ringmaster_steps_total", "Steps done.").Add(7);
  const std::vector<MetricSample> samples = registry.Samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].name, "ringmaster_steps_total");
  EXPECT_EQ(samples[0].help, "Steps done.");
  EXPECT_TRUE(samples[0].is_counter);
  EXPECT_EQ(samples[0].value, 7);
  EXPECT_EQ(samples[1].name, "ringmaster_workers");
  EXPECT_FALSE(samples[1].is_counter);
  EXPECT_EQ(samples[1].value, 2.5);
}

TEST(MetricRegistryTest, CountsFromManyThreads) {
  MetricRegistry registry;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&registry] {
      for (int k = 0; k < 1'000; ++k) {
        registry.counter("ringmaster_frames_total", "Frames.").Increment();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.counter("ringmaster_frames_total", "").value(), 4'000);
}

TEST(MetricRegistryDeathTest, RefusesMalformedNames) {
  MetricRegistry registry;
  EXPECT_DEATH(registry.counter("steps_total", ""), "\"steps_total\"");
  EXPECT_DEATH(registry.counter("ringmaster_steps", ""), "_total");
  EXPECT_DEATH(registry.gauge("ringmaster_x_total", ""), "_total");
  EXPECT_DEATH(registry.gauge("ringmaster_a{b}", ""), "lower_snake");
}

}  // namespace
}  // namespace ringmaster
