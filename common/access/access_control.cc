#include "common/access/access_control.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status/reason.h"
#include "common/text/quoted.h"

namespace ringmaster {
namespace {

constexpr absl::string_view kScheme = "spiffe://";
constexpr absl::string_view kBearer = "bearer ";
constexpr size_t kMaxTrustDomain = 255;

absl::Status Unauthenticated(const std::string& why) {
  return WithReason(absl::UnauthenticatedError(why), reason::kUnauthenticated);
}

// Adds what `uri` says to `identity`; nothing if it is not one of ours. An error: it
// is, but of another domain, no such role or name can be, or another URI has another
// name.
absl::Status AddUri(const std::string& uri, const std::string& trust_domain,
                    Identity& identity) {
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, kScheme)) return absl::OkStatus();
  const std::vector<std::string> parts = absl::StrSplit(rest, '/');
  if (parts.size() < 2 || parts[1] != "ringmaster") return absl::OkStatus();
  const auto wrong = [&](const std::string& why) {
    return Unauthenticated(
        absl::StrCat("the certificate's URI ", absl::CEscape(uri), " ", why));
  };
  if (!trust_domain.empty() && parts[0] != trust_domain) {
    return wrong(absl::StrCat("is not of the trust domain ", trust_domain,
                              " of --trust_domain"));
  }
  if (parts.size() != 4) return wrong("must end with /ringmaster/ROLE/NAME");
  const std::optional<Role> role = RoleOfName(parts[2]);
  if (!role.has_value()) {
    return wrong(absl::StrCat("has no role that there is: ", RoleNames()));
  }
  if (!IsCallerName(parts[3])) return wrong("has no name that can be");
  if (!identity.name.empty() && identity.name != parts[3]) {
    return wrong(absl::StrCat("names another than ", identity.name));
  }
  identity.name = parts[3];
  identity.roles.Add(*role);
  return absl::OkStatus();
}

absl::StatusOr<Identity> OfCertificate(const Credentials& credentials,
                                       const AccessRules& rules,
                                       const std::string& trust_domain,
                                       bool has_file) {
  Identity identity;
  for (const std::string& uri : credentials.uris) {
    if (const absl::Status status = AddUri(uri, trust_domain, identity);
        !status.ok()) {
      return status;
    }
  }
  if (!identity.roles.empty()) return identity;
  if (const Identity* const known = rules.FindSubject(credentials.subject)) {
    return *known;
  }
  return Unauthenticated(absl::StrCat(
      "the certificate of ", absl::CEscape(credentials.subject),
      " has no role: issue one with the URI "
      "spiffe://",
      trust_domain.empty() ? "DOMAIN" : trust_domain, "/ringmaster/ROLE/NAME",
      has_file ? ", or give its subject a role in the "
                 "coordinator's --access_file"
               : ""));
}

// nullopt: there is no token.
std::optional<absl::StatusOr<Identity>> OfToken(const Credentials& credentials,
                                                const AccessRules& rules) {
  const absl::string_view value = credentials.authorization;
  if (value.empty()) return std::nullopt;
  if (!absl::StartsWithIgnoreCase(value, kBearer)) {
    return Unauthenticated("\"authorization\" must be \"Bearer TOKEN\"");
  }
  const absl::string_view token =
      absl::StripAsciiWhitespace(value.substr(kBearer.size()));
  const AccessRules::Token* const found =
      rules.FindToken(std::string_view(token.data(), token.size()));
  if (found == nullptr) {
    return Unauthenticated(
        "the token is not in the coordinator's --access_file");
  }
  if (found->is_revoked) {
    return Unauthenticated(
        absl::StrCat("the token of ", found->identity.name, " was revoked"));
  }
  return found->identity;
}

}  // namespace

absl::StatusOr<Identity> AccessControl::Identify(
    const Credentials& credentials) const {
  // With a token, too: it would not get as far as showing that now. A worker whose
  // files were renewed since comes back by them, so this must not end it.
  if (credentials.has_certificate && trust_ != nullptr &&
      !trust_->Trusts(credentials.chain)) {
    return absl::UnavailableError(absl::StrCat(
        "the authority that signed the certificate of ",
        absl::CEscape(credentials.subject),
        " is not in --tls_ca_file any more: connect again with another "
        "certificate"));
  }
  if (!has_file_ && !credentials.authorization.empty()) {
    return Unauthenticated(
        "tokens are the coordinator's: give --tls_cert_file and "
        "--tls_key_file alone");
  }
  const std::shared_ptr<const AccessRules> rules = this->rules();
  if (auto identity = OfToken(credentials, *rules); identity.has_value()) {
    return *std::move(identity);
  }
  if (credentials.has_certificate)
    return OfCertificate(credentials, *rules, trust_domain_, has_file_);
  return Unauthenticated(
      "the call has neither a certificate nor a token: give --token_file, or "
      "--tls_cert_file and --tls_key_file");
}

absl::StatusOr<Identity> AccessControl::Admit(const Credentials& credentials,
                                              std::string_view method) const {
  absl::StatusOr<Identity> identity = Identify(credentials);
  if (!identity.ok()) return identity;
  const RoleSet roles = RolesFor(methods_, method);
  if (identity->roles.Meets(roles)) return identity;
  const absl::string_view name(method.data(), method.size());
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat(
          identity->name, " (", NamesOf(identity->roles), ") may not call ",
          absl::CEscape(absl::StripPrefix(name, "/")),
          roles.empty() ? ": there is no such method"
                        : absl::StrCat(", which takes the role ",
                                       absl::StrReplaceAll(NamesOf(roles),
                                                           {{",", " or "}})))),
      reason::kPermissionDenied);
}

RoleSet RolesFor(std::span<const MethodRoles> table, std::string_view method) {
  const auto row = std::find_if(
      table.begin(), table.end(),
      [&](const MethodRoles& entry) { return entry.method == method; });
  return row == table.end() ? RoleSet() : row->roles;
}

void AccessControl::Replace(AccessRules rules) {
  auto replacement = std::make_shared<const AccessRules>(std::move(rules));
  MutexLock lock(mutex_);
  rules_ = std::move(replacement);
}

std::shared_ptr<const AccessRules> AccessControl::rules() const {
  MutexLock lock(mutex_);
  return rules_;
}

absl::Status CheckTrustDomain(std::string_view text) {
  const bool is_domain =
      !text.empty() && text.size() <= kMaxTrustDomain &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '.' ||
               c == '-' || c == '_';
      });
  if (is_domain) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text),
      " must be 1 to 255 lower-case letters, digits, '.', '-' or '_', as in "
      "the certificates' spiffe://DOMAIN/..."));
}

}  // namespace ringmaster
