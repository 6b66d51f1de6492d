#include "common/access/access_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/config/read_file.h"
#include "common/config/yaml_to_proto.h"
#include "common/secrets/digest.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "ringmaster/v1/access_file.pb.h"

namespace ringmaster {
namespace {

constexpr size_t kMaxName = 128;

absl::StatusOr<Identity> IdentityFrom(const std::string& name,
                                      const std::string& role) {
  if (!IsCallerName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "name ", Quoted(name),
        " must be 1 to 128 letters, digits, '-', '_', '.' or '@'"));
  }
  const std::optional<Role> found = RoleOfName(role);
  if (!found.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "role ", Quoted(role), " of ", name, " must be ", RoleNames()));
  }
  return Identity{name, {*found}};
}

bool IsDigest(std::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isxdigit(c); });
}

// OK iff nobody but the owner can write the file.
absl::Status CheckMode(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return absl::InvalidArgumentError(std::strerror(errno));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "others may write it, and could give themselves any role: chmod go-w");
}

}  // namespace

absl::StatusOr<AccessRules> AccessRules::Parse(std::string_view yaml,
                                               std::string_view file_name) {
  v1::AccessFile file;
  RETURN_IF_ERROR(YamlToProto(yaml, file_name, file));
  AccessRules rules;
  const auto wrong = [&](std::string_view list, int index,
                         const absl::Status& why) {
    return Annotate(why, absl::StrCat(std::string(file_name), ": ",
                                      std::string(list), "[", index, "]"));
  };
  for (int i = 0; i < file.tokens_size(); ++i) {
    const v1::AccessToken& entry = file.tokens(i);
    absl::StatusOr<Identity> identity =
        IdentityFrom(entry.name(), entry.role());
    if (!identity.ok()) return wrong("tokens", i, identity.status());
    if (!IsDigest(entry.sha256())) {
      return wrong("tokens", i,
                   absl::InvalidArgumentError(absl::StrCat(
                       "sha256 of ", entry.name(),
                       " must be 64 hexadecimal digits; the token itself "
                       "belongs in its owner's file, not here")));
    }
    Token token = {*std::move(identity), entry.revoked()};
    if (!rules.tokens_
             .emplace(absl::HexStringToBytes(entry.sha256()), std::move(token))
             .second) {
      return wrong("tokens", i,
                   absl::InvalidArgumentError(absl::StrCat(
                       "the token of ", entry.name(), " is here twice")));
    }
  }
  for (int i = 0; i < file.certificates_size(); ++i) {
    const v1::AccessCertificate& entry = file.certificates(i);
    absl::StatusOr<Identity> identity =
        IdentityFrom(entry.name(), entry.role());
    if (!identity.ok()) return wrong("certificates", i, identity.status());
    if (entry.subject().empty()) {
      return wrong("certificates", i,
                   absl::InvalidArgumentError("subject must be given"));
    }
    if (!rules.subjects_.emplace(entry.subject(), *std::move(identity))
             .second) {
      return wrong("certificates", i,
                   absl::InvalidArgumentError(absl::StrCat(
                       "subject ", entry.subject(), " is here twice")));
    }
  }
  return rules;
}

absl::StatusOr<AccessRules> AccessRules::Read(const std::string& path) {
  if (const absl::Status status = CheckMode(path); !status.ok()) {
    return Annotate(status, path);
  }
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return Annotate(text.status(), path);
  return Parse(*text, path);
}

const AccessRules::Token* AccessRules::FindToken(std::string_view token) const {
  const auto found = tokens_.find(Sha256(token));
  return found == tokens_.end() ? nullptr : &found->second;
}

const Identity* AccessRules::FindSubject(std::string_view subject) const {
  const auto found = subjects_.find(subject);
  return found == subjects_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::optional<AccessRules>> AccessFileWatch::Poll() {
  if (!changes_.Look()) return std::nullopt;
  struct stat status = {};
  if (stat(path_.c_str(), &status) == 0) owner_ = status.st_uid;
  absl::StatusOr<AccessRules> rules = AccessRules::Read(path_);
  if (!rules.ok()) {
    if (changes_.Refuse() > 1) return std::nullopt;
    return rules.status();
  }
  changes_.Accept();
  return std::optional<AccessRules>(*std::move(rules));
}

std::string AccessFileWatch::owner() const {
  return absl::StrCat("uid ", owner_);
}

bool IsCallerName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' ||
                  c == '@';
         });
}

}  // namespace ringmaster
