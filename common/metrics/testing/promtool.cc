#include "common/metrics/testing/promtool.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster {

void ExpectPassesPromtool(const MetricPage& page) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool (Debian's package prometheus) is not installed";
  const std::string file = testing::TempDir() + "/metrics.txt";
  std::ofstream(file) << page.Text();
  EXPECT_EQ(std::system(("promtool check metrics <" + file).c_str()), 0)
      << page.Text();
}

}  // namespace ringmaster
