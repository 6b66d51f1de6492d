#include "server/coordinator/page/logins.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

TEST(Logins, AreFoundByTheirKeyUntilTheyEnd) {
  Logins logins;
  const MonotonicTime now;
  const std::string key = logins.Add("Bearer a", now);
  EXPECT_EQ(key.size(), 64);
  EXPECT_EQ(logins.Find(key, now), "Bearer a");
  EXPECT_EQ(logins.Find(key, now + kLoginTime - absl::Seconds(1)), "Bearer a");
  EXPECT_EQ(logins.Find(key, now + kLoginTime), "");
  EXPECT_EQ(logins.Find("", now), "");
  EXPECT_EQ(logins.Find(key.substr(1), now), "");
  logins.Remove(key);
  EXPECT_EQ(logins.Find(key, now), "");
}

TEST(Logins, TheOldestMakesRoom) {
  Logins logins;
  const MonotonicTime now;
  std::vector<std::string> keys;
  for (size_t i = 0; i <= Logins::kMaxLogins; ++i)
    keys.push_back(logins.Add(absl::StrCat("Bearer ", i), now));
  EXPECT_EQ(logins.Find(keys[0], now), "");
  EXPECT_EQ(logins.Find(keys[1], now), "Bearer 1");
  EXPECT_EQ(logins.Find(keys.back(), now),
            absl::StrCat("Bearer ", Logins::kMaxLogins));
}

}  // namespace
}  // namespace ringmaster::coordinator
