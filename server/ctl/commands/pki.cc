#include "server/ctl/commands/pki.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/access/access_file.h"
#include "common/access/role.h"
#include "common/config/read_file.h"
#include "common/credentials/authority.h"
#include "common/files/new_file.h"
#include "common/secrets/digest.h"
#include "common/secrets/random.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "nlohmann/json.hpp"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kAuthorityDays = 3650;
constexpr int64_t kCertificateDays = 90;
// Clocks of other machines may be this far behind.
constexpr absl::Duration kClockSkew = absl::Minutes(5);
// RFC 5280, appendix A.1 (ub-common-name).
constexpr size_t kMaxCommonName = 64;
constexpr mode_t kPrivate = 0600;
constexpr mode_t kPublic = 0644;
// A certificate that no caller has: it answers for its hosts, and opens nothing.
constexpr char kCoordinatorRole[] = "coordinator";

std::string PathOf(const PkiOptions& options, std::string_view file) {
  return absl::StrCat(options.directory, "/", std::string(file));
}

absl::StatusOr<std::string> Read(const std::string& path) {
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return Annotate(text.status(), path);
  return text;
}

absl::StatusOr<CertificateAuthority> LoadAuthority(const PkiOptions& options) {
  CertificateAndKey pem;
  const std::string path = PathOf(options, "ca.pem");
  const absl::Status read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(pem.certificate, Read(path));
    ASSIGN_OR_RETURN(pem.key, Read(PathOf(options, "ca.key")));
    return absl::OkStatus();
  }();
  if (!read.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(read.message(), "; ringctl pki init ", options.directory,
                     " makes an authority there"));
  }
  absl::StatusOr<CertificateAuthority> authority =
      CertificateAuthority::Load(pem);
  if (!authority.ok()) return Annotate(authority.status(), path);
  return authority;
}

// A name that is a file name, too: "ca" is the authority's.
absl::Status CheckName(const std::string& name) {
  if (IsCallerName(name) && name != "ca" && name[0] != '.') {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "NAME: ", Quoted(name),
      " must be letters, digits, '-', '_', '.' or '@', not begin with a dot, "
      "and not be ca"));
}

// "worker,submitter": what one certificate may have. A coordinator's is no caller's.
struct Roles {
  std::vector<std::string> of_callers;
  bool is_coordinator = false;
};

absl::Status CheckRole(const std::string& role) {
  if (RoleOfName(role).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ROLE: ", Quoted(role), " must be ", RoleNames()));
}

absl::StatusOr<Roles> RolesOf(const std::string& text) {
  Roles roles;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::string role(part);
    if (role == kCoordinatorRole) {
      roles.is_coordinator = true;
      continue;
    }
    if (const absl::Status status = CheckRole(role); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(status.message(), ", or coordinator"));
    }
    roles.of_callers.push_back(role);
  }
  return roles;
}

absl::Duration LifetimeOf(const PkiOptions& options, int64_t otherwise) {
  return absl::Hours(24) * (options.days > 0 ? options.days : otherwise);
}

// Nothing is replaced: what has been given out would not be valid any more.
absl::Status IsNew(const absl::Status& status, const NewFile& file) {
  if (!absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(
      absl::StrCat(file.path(),
                   " is there already; ringctl pki renew keeps its key, or "
                   "remove it first"));
}

// The key first: a certificate that is there has its key.
absl::Status WriteBoth(const std::string& base, const CertificateAndKey& pem) {
  NewFile key(absl::StrCat(base, ".key"), /*may_replace=*/false, kPrivate);
  NewFile certificate(absl::StrCat(base, ".pem"), /*may_replace=*/false,
                      kPublic);
  RETURN_IF_ERROR(IsNew(certificate.Check(), certificate));
  RETURN_IF_ERROR(IsNew(key.Write(pem.key), key));
  return IsNew(certificate.Write(pem.certificate), certificate);
}

void Print(const Json& json, const std::string& text, OutputFormat format,
           Console& console) {
  console.Write(format == OutputFormat::kJson
                    ? json.dump(2, ' ', false, Json::error_handler_t::replace) +
                          "\n"
                    : text);
}

absl::StatusOr<int> Init(const PkiOptions& options, absl::Time now,
                         OutputFormat format, Console& console) {
  if (mkdir(options.directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.directory, ": ", std::strerror(errno)));
  }
  const absl::Time end = now + LifetimeOf(options, kAuthorityDays);
  absl::StatusOr<CertificateAuthority> authority =
      CertificateAuthority::Create(options.domain, now - kClockSkew, end);
  if (!authority.ok()) return Annotate(authority.status(), "--domain");
  ASSIGN_OR_RETURN(const CertificateAndKey pem, authority->pem());
  RETURN_IF_ERROR(WriteBoth(PathOf(options, "ca"), pem));
  const std::string path = PathOf(options, "ca.pem");
  Print({{"certificate", path},
         {"end_time", absl::FormatTime(end, absl::UTCTimeZone())}},
        absl::StrCat("made the authority ", Printable(path),
                     "; whoever has ca.key beside it can issue any role: keep "
                     "it off the cluster\n"),
        format, console);
  return static_cast<int>(ExitCode::kDone);
}

absl::StatusOr<int> Issue(const PkiOptions& options, absl::Time now,
                          OutputFormat format, Console& console) {
  RETURN_IF_ERROR(CheckName(options.name));
  if (options.name.size() > kMaxCommonName) {
    return absl::InvalidArgumentError(
        "NAME: a certificate's has at most 64 characters");
  }
  ASSIGN_OR_RETURN(Roles roles, RolesOf(options.role));
  if (roles.is_coordinator && options.hosts.empty()) {
    return absl::InvalidArgumentError(
        "--hosts: a coordinator's certificate needs the names and addresses "
        "under which it is reached");
  }
  ASSIGN_OR_RETURN(const CertificateAuthority authority,
                   LoadAuthority(options));
  CertificateRequest request = {
      .name = options.name,
      .roles = std::move(roles.of_callers),
      .hosts = options.hosts,
      .begin = now - kClockSkew,
      .end = now + LifetimeOf(options, kCertificateDays)};
  ASSIGN_OR_RETURN(const CertificateAndKey pem, authority.Issue(request));
  const std::string base = PathOf(options, options.name);
  RETURN_IF_ERROR(WriteBoth(base, pem));
  const std::string end =
      absl::FormatTime("%Y-%m-%d", request.end, absl::UTCTimeZone());
  Print({{"certificate", base + ".pem"},
         {"key", base + ".key"},
         {"role", options.role},
         {"name", options.name},
         {"end_time", absl::FormatTime(request.end, absl::UTCTimeZone())}},
        absl::StrCat("issued ", Printable(base), ".pem and .key: ",
                     options.role, " ", options.name, ", until ", end, "\n"),
        format, console);
  return static_cast<int>(ExitCode::kDone);
}

absl::StatusOr<int> Renew(const PkiOptions& options, absl::Time now,
                          OutputFormat format, Console& console) {
  RETURN_IF_ERROR(CheckName(options.name));
  ASSIGN_OR_RETURN(const CertificateAuthority authority,
                   LoadAuthority(options));
  const std::string path = PathOf(options, options.name + ".pem");
  ASSIGN_OR_RETURN(const std::string old, Read(path));
  const absl::StatusOr<std::string> renewed =
      authority.Renew(old, now - kClockSkew);
  if (!renewed.ok()) return Annotate(renewed.status(), path);
  NewFile file(path, /*may_replace=*/true, kPublic);
  RETURN_IF_ERROR(file.Write(*renewed));
  Print({{"certificate", path}},
        absl::StrCat("renewed ", Printable(path),
                     ", for the same key; programs that use it take it over by "
                     "themselves\n"),
        format, console);
  return static_cast<int>(ExitCode::kDone);
}

// The entry for the access file; the token itself goes to a file alone.
absl::StatusOr<int> MakeToken(const PkiOptions& options, OutputFormat format,
                              Console& console) {
  RETURN_IF_ERROR(CheckName(options.name));
  RETURN_IF_ERROR(CheckRole(options.role));
  const std::string token = absl::WebSafeBase64Escape(RandomBytes(kKeyBytes));
  const std::string digest = absl::BytesToHexString(Sha256(token));
  NewFile file(options.token_file, /*may_replace=*/false, kPrivate);
  RETURN_IF_ERROR(IsNew(file.Write(token + "\n"), file));
  Print({{"token_file", options.token_file},
         {"name", options.name},
         {"role", options.role},
         {"sha256", digest}},
        absl::StrCat("# Under \"tokens:\" in the coordinator's --access_file:\n"
                     "  - {name: ",
                     options.name, ", role: ", options.role,
                     ", sha256: ", digest, "}\n"),
        format, console);
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

void AddPkiCommand(FlagSet& flags, PkiOptions& options) {
  FlagSet& group = flags.AddCommand(
      "pki",
      "Makes a certificate authority, certificates and tokens, for those who "
      "have none (docs/security.md).");
  const auto add = [&](const char* name, const char* summary) -> FlagSet& {
    FlagSet& command = group.AddCommand(name, summary);
    command.AddArgument("DIR", "Where the authority is.", /*is_required=*/true,
                        &options.directory);
    return command;
  };
  const auto add_days = [&](FlagSet& command, const char* help) {
    command.Add(
        {.name = "days", .unit = "N", .help = help, .min = 0, .max = 36500},
        &options.days);
  };
  const auto add_who = [&](FlagSet& command, const char* roles) {
    command.AddArgument("ROLE", roles, /*is_required=*/true, &options.role);
    command.AddArgument("NAME", "Whose it is: jobs and the audit show it.",
                        /*is_required=*/true, &options.name);
  };
  FlagSet& init = add("init", "Makes an authority: DIR/ca.pem and DIR/ca.key.");
  init.Add({.name = "domain",
            .unit = "NAME",
            .help = "The trust domain, in the URIs of certificates."},
           &options.domain);
  add_days(init, "How long it is valid; 0: 3650.");
  FlagSet& issue =
      add("issue", "Issues a certificate: DIR/NAME.pem and DIR/NAME.key.");
  add_who(issue,
          "viewer, submitter, operator, worker, server, or coordinator for the "
          "coordinator itself; several are separated by commas.");
  issue.Add({.name = "hosts",
             .unit = "HOST",
             .help = "A DNS name or address under which its holder is reached; "
                     "may be repeated."},
            &options.hosts);
  add_days(issue, "How long it is valid; 0: 90.");
  FlagSet& renew = add(
      "renew",
      "Issues DIR/NAME.pem anew, for its key and for as long as it was valid.");
  renew.AddArgument("NAME", "As it was issued.", /*is_required=*/true,
                    &options.name);
  FlagSet& token = group.AddCommand(
      "token",
      "Makes a bearer token, and prints its entry for the coordinator's "
      "--access_file.");
  add_who(token, "viewer, submitter, operator, worker or server.");
  token.Add({.name = "out",
             .unit = "FILE",
             .help = "The file to make, which only its owner may read.",
             .is_required = true},
            &options.token_file);
}

absl::StatusOr<int> RunPki(const std::string& command,
                           const PkiOptions& options, absl::Time now,
                           OutputFormat format, Console& console) {
  if (command == "pki init") return Init(options, now, format, console);
  if (command == "pki issue") return Issue(options, now, format, console);
  if (command == "pki renew") return Renew(options, now, format, console);
  return MakeToken(options, format, console);
}

}  // namespace ringmaster::ctl
