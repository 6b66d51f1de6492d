#include "common/rpc/connect_failure.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

std::string MeaningOf(const std::string& last_error) {
  return std::string(MeaningOfConnectFailure(
      "failed to connect to all addresses; last error: " + last_error));
}

// The texts are gRPC's.
TEST(ConnectFailureTest, SaysWhoDoesNotSpeakTls) {
  EXPECT_EQ(MeaningOf("UNKNOWN: ipv4:127.0.0.1:7000: Ssl handshake failed: "
                      "SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong "
                      "version number"),
            "it does not speak TLS, and this program does");
  EXPECT_THAT(MeaningOf("UNAVAILABLE: ipv4:127.0.0.1:7000: Socket closed"),
              HasSubstr("perhaps it speaks TLS and this program does not"));
  EXPECT_THAT(MeaningOf("UNAVAILABLE: ipv4:127.0.0.1:7000: Failed parsing "
                        "HTTP/2"),
              HasSubstr("not a coordinator's gRPC port"));
}

TEST(ConnectFailureTest, SaysNothingOfOtherFailures) {
  EXPECT_EQ(MeaningOf("UNKNOWN: ipv4:127.0.0.1:7000: Failed to connect to "
                      "remote host: Connection refused"),
            "");
  // A coordinator that was there has gone.
  EXPECT_EQ(MeaningOfConnectFailure("Socket closed"), "");
}

}  // namespace
}  // namespace ringmaster
