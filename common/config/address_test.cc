#include "common/config/address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

TEST(HostPortTest, ParsesNamesAndAddresses) {
  EXPECT_EQ(*ParseHostPort("node-7.rack_1:29400"),
            (HostPort{"node-7.rack_1", 29400}));
  EXPECT_EQ(*ParseHostPort("10.0.0.7:1"), (HostPort{"10.0.0.7", 1}));
  EXPECT_EQ(*ParseHostPort("[fd00::7]:65535"), (HostPort{"fd00::7", 65535}));
  EXPECT_EQ(*ParseHostPort("localhost:0"), (HostPort{"localhost", 0}));
}

TEST(HostPortTest, PrintsWhatItParses) {
  for (const std::string text : {"node-7:29400", "10.0.0.7:1", "[::1]:80"}) {
    EXPECT_EQ(ParseHostPort(text)->ToString(), text);
  }
}

TEST(HostPortTest, SaysWhatIsWrong) {
  const auto message = [](const char* text) {
    const absl::Status status = ParseHostPort(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_EQ(message("node-7"),
            "address \"node-7\": no port; write HOST:PORT, as node-7:29400, "
            "10.0.0.7:29400 or [fd00::7]:29400");
  EXPECT_THAT(message(""), HasSubstr("no port"));
  EXPECT_THAT(message("[::1]"), HasSubstr("no port"));
  EXPECT_THAT(message(":29400"), HasSubstr("no host"));
  EXPECT_THAT(message("a b:29400"), HasSubstr("no host name"));
  EXPECT_THAT(message("http://a:1"), HasSubstr("brackets"));
  EXPECT_THAT(message("fd00::7:29400"), HasSubstr("brackets"));
  EXPECT_THAT(message("[fd00::7:29400"), HasSubstr("no \"]\""));
  EXPECT_THAT(message("[10.0.0.7]:29400"), HasSubstr("no IPv6 address"));
  for (const char* const port : {"a:", "a:x", "a:-1", "a:65536", "a:+1", "a: 1",
                                 "a:99999999999999999999"}) {
    EXPECT_THAT(message(port), HasSubstr("the port is not a number"));
  }
}

TEST(IsLoopbackTest, IsTrueForThisMachineOnly) {
  for (const char* const address :
       {"127.0.0.1:29400", "127.8.9.10:1", "127.0.0.1", "[::1]:29400", "::1",
        "localhost:29400", "LocalHost:1", "localhost", "unix:/run/x.sock",
        "unix:///run/x.sock", "unix-abstract:x"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* const address :
       {"0.0.0.0:29400", "128.0.0.1:1", "10.0.0.7:29400", "[::]:29400",
        "[fd00::7]:1", "node-7:29400", "localhost.example.com:1", "",
        "127.0.0.1.example.com:1", "unixsocket:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace ringmaster
