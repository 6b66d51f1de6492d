#include "common/access/access_control.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/secrets/digest.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr char kSubmit[] = "/ringmaster.v1.JobService/SubmitJob";
constexpr char kSession[] = "/ringmaster.v1.CoordinatorService/Session";

constexpr MethodRoles kTable[] = {
    {kSubmit, {Role::kSubmitter, Role::kOperator}},
    {kSession, {Role::kWorker, Role::kServer}}};

AccessRules Rules(bool is_revoked = false) {
  return *AccessRules::Parse(
      absl::StrCat("tokens: [{name: alice, role: submitter, revoked: ",
                   is_revoked ? "true" : "false",
                   ", sha256: ", absl::BytesToHexString(Sha256("t-1")), "}]\n",
                   "certificates: [{subject: CN=ci, name: ci, role: viewer}]"),
      "a.yaml");
}

Credentials Certificate(std::vector<std::string> uris,
                        const std::string& subject = "CN=x") {
  return {.has_certificate = true,
          .uris = std::move(uris),
          .subject = subject,
          .authorization = ""};
}

Credentials Bearer(const std::string& value) {
  Credentials credentials = Certificate({}, "CN=nobody");
  credentials.authorization = value;
  return credentials;
}

std::string Refusal(const Credentials& credentials,
                    const AccessRules& rules = Rules()) {
  const absl::Status status =
      AccessControl(kTable, rules).Identify(credentials).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ReasonOf(status), reason::kUnauthenticated);
  return std::string(status.message());
}

TEST(AccessControlTest, KnowsCertificatesByTheirUriOrTheirSubject) {
  const AccessControl access(kTable, Rules());
  EXPECT_EQ(*access.Identify(Certificate(
                {"https://example.org/x", "spiffe://a.org/other/thing",
                 "spiffe://a.org/ringmaster/worker/node-1",
                 "spiffe://a.org/ringmaster/server/node-1"})),
            (Identity{"node-1", {Role::kWorker, Role::kServer}}));
  EXPECT_EQ(*access.Identify(Certificate({}, "CN=ci")),
            (Identity{"ci", {Role::kViewer}}));
}

TEST(AccessControlTest, ACertificateThatSaysNoRoleHasNone) {
  EXPECT_EQ(Refusal(Certificate({}, "CN=x")),
            "the certificate of CN=x has no role: issue one with the URI "
            "spiffe://DOMAIN/ringmaster/ROLE/NAME, or give its subject a role "
            "in the coordinator's --access_file");
  EXPECT_THAT(Refusal(Certificate({"spiffe://a.org/ringmaster/root/x"})),
              HasSubstr("has no role that there is"));
  EXPECT_THAT(Refusal(Certificate({"spiffe://a.org/ringmaster/viewer"})),
              HasSubstr("must end with"));
  EXPECT_THAT(Refusal(Certificate({"spiffe://a.org/ringmaster/viewer/a%20b"})),
              HasSubstr("has no name that can be"));
  EXPECT_THAT(Refusal(Certificate({"spiffe://a.org/ringmaster/viewer/a",
                                   "spiffe://a.org/ringmaster/operator/b"})),
              HasSubstr("names another than a"));
}

TEST(AccessControlTest, OnlyTheTrustDomainGivesRolesIfOneIsNamed) {
  const AccessControl access(kTable, Rules(), "a.org");
  EXPECT_EQ(access
                .Identify(Certificate({"spiffe://b.org/other/thing",
                                       "spiffe://a.org/ringmaster/viewer/v"}))
                ->name,
            "v");
  for (const std::vector<std::string>& uris :
       {std::vector<std::string>{"spiffe://b.org/ringmaster/operator/x"},
        {"spiffe://a.org.b/ringmaster/operator/x"},
        {"spiffe:///ringmaster/operator/x"},
        {"spiffe://a.org/ringmaster/viewer/x",
         "spiffe://b.org/ringmaster/operator/x"}}) {
    // Nor does its subject help such a one.
    const absl::Status status =
        access.Identify(Certificate(uris, "CN=ci")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("is not of the trust domain a.org"));
  }
  EXPECT_EQ(access.Identify(Certificate({}, "CN=ci"))->name, "ci");
}

TEST(AccessControlTest, ATrustDomainIsAsInAUri) {
  EXPECT_TRUE(CheckTrustDomain("my-cluster.example_1").ok());
  for (const char* const text : {"", "Example.org", "a/b", "spiffe://a.org"})
    EXPECT_TRUE(absl::IsInvalidArgument(CheckTrustDomain(text))) << text;
  EXPECT_FALSE(CheckTrustDomain(std::string(256, 'a')).ok());
}

TEST(AccessControlTest, ATokenComesBeforeTheCertificate) {
  const AccessControl access(kTable, Rules());
  EXPECT_EQ(*access.Identify(Bearer("Bearer t-1")),
            (Identity{"alice", {Role::kSubmitter}}));
  EXPECT_EQ(access.Identify(Bearer("bearer  t-1 "))->name, "alice");
  EXPECT_EQ(Refusal(Bearer("Bearer t-2")),
            "the token is not in the coordinator's --access_file");
  EXPECT_EQ(Refusal(Bearer("Basic dDox")),
            "\"authorization\" must be \"Bearer TOKEN\"");
  EXPECT_EQ(Refusal(Bearer("Bearer t-1"), Rules(/*is_revoked=*/true)),
            "the token of alice was revoked");
  EXPECT_EQ(Refusal(Credentials()),
            "the call has neither a certificate nor a token: give "
            "--token_file, or --tls_cert_file and --tls_key_file");
}

TEST(AccessControlTest, ARoleThatDoesNotFitIsNamedWithTheOnesThatDo) {
  const AccessControl access(kTable, Rules());
  EXPECT_TRUE(access.Admit(Bearer("Bearer t-1"), kSubmit).ok());
  const absl::Status status =
      access.Admit(Bearer("Bearer t-1"), kSession).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(),
            "alice (submitter) may not call "
            "ringmaster.v1.CoordinatorService/Session, which takes the role "
            "worker or server");
  EXPECT_THAT(
      std::string(
          access.Admit(Bearer("Bearer t-1"), "/x/Y").status().message()),
      HasSubstr("there is no such method"));
}

TEST(AccessControlTest, NewRulesHoldForTheNextCall) {
  AccessControl access(kTable, Rules());
  ASSERT_TRUE(access.Admit(Bearer("Bearer t-1"), kSubmit).ok());
  access.Replace(Rules(/*is_revoked=*/true));
  EXPECT_FALSE(access.Admit(Bearer("Bearer t-1"), kSubmit).ok());
}

TEST(AccessControlTest, AServerWithoutAnAccessFileGoesByUrisAlone) {
  const AccessControl access(kTable, std::nullopt);
  EXPECT_TRUE(
      access
          .Admit(Certificate({"spiffe://a.org/ringmaster/worker/w"}), kSession)
          .ok());
  EXPECT_EQ(access.Identify(Certificate({}, "CN=ci")).status().message(),
            "the certificate of CN=ci has no role: issue one with the URI "
            "spiffe://DOMAIN/ringmaster/ROLE/NAME");
  EXPECT_EQ(access.Identify(Bearer("Bearer t-1")).status().message(),
            "tokens are the coordinator's: give --tls_cert_file and "
            "--tls_key_file alone");
}

}  // namespace
}  // namespace ringmaster
