#include "common/status/exit_code.h"

#include "common/status/annotate.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(ExitCodeTest, FollowsFromTheStatusCode) {
  using absl::Status;
  using absl::StatusCode;
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kDone);
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kNotFound,
        StatusCode::kAlreadyExists, StatusCode::kFailedPrecondition,
        StatusCode::kOutOfRange, StatusCode::kPermissionDenied,
        StatusCode::kUnauthenticated, StatusCode::kUnimplemented}) {
    EXPECT_EQ(ExitCodeOf(Status(code, "x")), ExitCode::kUsage)
        << Status(code, "");
  }
  for (const StatusCode code :
       {StatusCode::kUnavailable, StatusCode::kAborted,
        StatusCode::kDeadlineExceeded, StatusCode::kResourceExhausted}) {
    EXPECT_EQ(ExitCodeOf(Status(code, "x")), ExitCode::kRetryElsewhere)
        << Status(code, "");
  }
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("x")), ExitCode::kCheckpointCorrupt);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("x")), ExitCode::kStopped);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), ExitCode::kInternal);
  EXPECT_EQ(ExitCodeOf(absl::UnknownError("x")), ExitCode::kInternal);
}

TEST(ExitCodeTest, AnExplicitCodeWinsAndSurvivesAnnotation) {
  const absl::Status status =
      Annotate(WithExitCode(absl::FailedPreconditionError("plans differ"),
                            ExitCode::kPlanMismatch),
               "rank 3");
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPlanMismatch);
}

TEST(ExitCodeTest, OkCannotCarryAnotherCode) {
  EXPECT_EQ(ExitCodeOf(WithExitCode(absl::OkStatus(), ExitCode::kUsage)),
            ExitCode::kDone);
}

TEST(ExitCodeTest, TableHasALineForEachCode) {
  const std::string table = ExitCodeTable();
  EXPECT_EQ(table.rfind("    0  done\n", 0), 0u) << table;
  EXPECT_NE(table.find("\n  138  retry elsewhere"), std::string::npos) << table;
  EXPECT_NE(table.find("\n  143  stopped"), std::string::npos) << table;
  size_t lines = 0;
  for (const char c : table) lines += c == '\n';
  EXPECT_EQ(lines, kExitCodes.size());
}

}  // namespace
}  // namespace ringmaster
