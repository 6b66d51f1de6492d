#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string>

#include "common/logging/logging.h"
#include "common/logging/testing/log_capture.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/error.pb.h"

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

TEST(GrpcLogTest, AStrangerCannotFillTheLogWithFieldsThatAreNotUtf8) {
  RedirectGrpcLog();
  const LogCapture capture;
  for (int i = 0; i < 1000; ++i) {
    v1::ErrorInfo message;
    (void)message.ParseFromString(std::string("\x0a\x01\xff", 3));
  }
  EXPECT_EQ(capture.lines().size(), 1) << capture.lines().back();
  EXPECT_TRUE(capture.Contains("contains invalid UTF-8 data"));
}

}  // namespace
}  // namespace ringmaster
