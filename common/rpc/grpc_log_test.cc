#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include "common/logging/logging.h"
#include "common/logging/testing/log_capture.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(GrpcLogTest, LinesOfGrpcAppearInOurLogAtLevelDebug) {
  RedirectGrpcLog();
  {
    LogCapture quiet;
    gpr_log(GPR_ERROR, "no address added");
    EXPECT_TRUE(quiet.lines().empty());
  }
  ASSERT_TRUE(InitLogging({.level = LogLevel::kDebug}).ok());
  LogCapture capture;
  gpr_log(GPR_ERROR, "no address added");
  EXPECT_TRUE(capture.Contains("message=\"no address added\""));
}

}  // namespace
}  // namespace ringmaster
