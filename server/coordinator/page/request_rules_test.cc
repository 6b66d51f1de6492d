#include "server/coordinator/page/request_rules.h"

#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

TEST(IsOwnHost, LoopbackAndTheListenHostWithAnyPort) {
  for (const char* host :
       {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:1", "[::1]:80",
        "head.example", "HEAD.example:29480"}) {
    EXPECT_TRUE(IsOwnHost(host, "head.example")) << host;
  }
}

TEST(IsOwnHost, NobodyElse) {
  for (const char* host :
       {"", ":80", "evil.example", "evil.example:29480", "head.example.evil",
        "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "::1",
        "[", "a:b:c"}) {
    EXPECT_FALSE(IsOwnHost(host, "head.example")) << host;
  }
}

TEST(CookieValue, FindsTheWholeName) {
  EXPECT_EQ(CookieValue("a=1; key=xyz; b=2", "key"), "xyz");
  EXPECT_EQ(CookieValue("key=x=y", "key"), "x=y");
  EXPECT_EQ(CookieValue("notkey=1; key2=2", "key"), "");
  EXPECT_EQ(CookieValue("", "key"), "");
}

TEST(StreamPosition, ComesBackAsItWent) {
  const StreamPosition position = {
      .incarnation = ~uint64_t{0}, .event_sequence = 17, .revision = 12345};
  EXPECT_EQ(StreamPosition::Parse(position.ToString()), position);
  for (const char* text :
       {"", "1", "1-2", "1-2-3-4", "a-b-c", "1-2-", "-1-2-3"})
    EXPECT_FALSE(StreamPosition::Parse(text).has_value()) << text;
}

TEST(SecurityHeaders, AllowNothingInlineAndNothingFromElsewhere) {
  const auto headers = SecurityHeaders();
  const std::string policy(headers[0].second);
  EXPECT_EQ(headers[0].first, "Content-Security-Policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy.find("http"), std::string::npos);
}

TEST(IsSameOriginTest, OnlyOurOwnPageOrAProgram) {
  EXPECT_TRUE(IsSameOrigin("", "localhost:7080"));
  EXPECT_TRUE(IsSameOrigin("http://localhost:7080", "localhost:7080"));
  EXPECT_TRUE(IsSameOrigin("https://[::1]:7080", "[::1]:7080"));
  for (const char* origin :
       {"null", "http://localhost", "http://localhost:7081",
        "http://evil.example", "http://localhost:7080.evil.example",
        "ftp://localhost:7080"}) {
    EXPECT_FALSE(IsSameOrigin(origin, "localhost:7080")) << origin;
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
