#include "common/access/access_file.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/secrets/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

std::string DigestOf(const std::string& token) {
  return absl::BytesToHexString(Sha256(token));
}

std::string Token(const std::string& name, const std::string& role,
                  const std::string& digest) {
  return absl::StrCat("  - {name: ", name, ", role: ", role,
                      ", sha256: ", digest, "}\n");
}

std::string ErrorOf(const std::string& yaml) {
  const absl::Status status = AccessRules::Parse(yaml, "a.yaml").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << yaml;
  return std::string(status.message());
}

TEST(AccessFileTest, FindsTokensAndSubjects) {
  const auto rules = AccessRules::Parse(
      absl::StrCat(
          "tokens:\n", Token("alice", "submitter", DigestOf("t-1")),
          "  - {name: bob, role: operator, revoked: true, sha256: ",
          DigestOf("t-2"), "}\n",
          "certificates:\n  - {subject: \"CN=ci,O=Example\", name: ci, "
          "role: viewer}\n"),
      "a.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_NE(rules->FindToken("t-1"), nullptr);
  EXPECT_EQ(rules->FindToken("t-1")->identity,
            (Identity{"alice", {Role::kSubmitter}}));
  EXPECT_FALSE(rules->FindToken("t-1")->is_revoked);
  EXPECT_TRUE(rules->FindToken("t-2")->is_revoked);
  EXPECT_EQ(rules->FindToken("t-3"), nullptr);
  EXPECT_EQ(rules->FindToken(""), nullptr);
  ASSERT_NE(rules->FindSubject("CN=ci,O=Example"), nullptr);
  EXPECT_EQ(*rules->FindSubject("CN=ci,O=Example"),
            (Identity{"ci", {Role::kViewer}}));
  EXPECT_EQ(rules->FindSubject("CN=ci"), nullptr);
}

TEST(AccessFileTest, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(ErrorOf("tokens: [{nome: a}]"),
              AllOf(HasSubstr("a.yaml:1"), HasSubstr("nome")));
  EXPECT_EQ(ErrorOf("tokens:\n" + Token("alice", "root", DigestOf("t"))),
            "a.yaml: tokens[0]: role \"root\" of alice must be viewer, "
            "submitter, operator, worker or server");
  EXPECT_EQ(ErrorOf("tokens:\n" + Token("alice", "viewer", "secret")),
            "a.yaml: tokens[0]: sha256 of alice must be 64 hexadecimal digits; "
            "the token itself belongs in its owner's file, not here");
  EXPECT_THAT(ErrorOf("tokens:\n" + Token("'a b'", "viewer", DigestOf("t"))),
              HasSubstr("name \"a b\" must be"));
  const std::string twice = Token("alice", "viewer", DigestOf("t"));
  EXPECT_EQ(ErrorOf("tokens:\n" + twice + twice),
            "a.yaml: tokens[1]: the token of alice is here twice");
  EXPECT_EQ(ErrorOf("certificates: [{name: a, role: viewer}]"),
            "a.yaml: certificates[0]: subject must be given");
  EXPECT_THAT(ErrorOf("certificates: [{name: a, role: viewer, subject: x}, "
                      "{name: b, role: operator, subject: x}]"),
              HasSubstr("certificates[1]: subject x is here twice"));
}

TEST(AccessFileTest, IsNobodyElsesToWrite) {
  const std::string path = ::testing::TempDir() + "/access.yaml";
  std::ofstream(path) << "tokens:\n" << Token("a", "viewer", DigestOf("t"));
  chmod(path.c_str(), 0644);
  EXPECT_TRUE(AccessRules::Read(path).ok());
  chmod(path.c_str(), 0664);
  EXPECT_EQ(AccessRules::Read(path).status().message(),
            path +
                ": others may write it, and could give themselves any role: "
                "chmod go-w");
  EXPECT_EQ(AccessRules::Read("/no/such").status().message(),
            "/no/such: No such file or directory");
}

}  // namespace
}  // namespace ringmaster
