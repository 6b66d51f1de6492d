#include "server/ctl/client/explain.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/connect_failure.h"
#include "common/status/exit_code.h"
#include "common/status/reason.h"

namespace ringmaster::ctl {
namespace {

// Without regard to case; `parts` are in lower case.
bool ContainsAny(const std::string& text,
                 std::initializer_list<const char*> parts) {
  const std::string lower = absl::AsciiStrToLower(text);
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) {
    return absl::StrContains(lower, part);
  });
}

// One line, however gRPC put it.
std::string OneLine(const absl::Status& status) {
  std::string text(status.message());
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\r', ' ');
  return text;
}

// gRPC gives one code to all failures to connect; only its words tell them
// apart.
std::string ExplainUnavailable(const std::string& cause,
                               const std::string& address) {
  if (ContainsAny(cause, {"dns resolution failed", "name resolution",
                          "name or service not known"})) {
    return absl::StrCat("cannot resolve the coordinator's address ", address,
                        ": check the host name given with --coordinator or "
                        "RINGMASTER_COORDINATOR");
  }
  if (ContainsAny(cause, {"connection refused"})) {
    return absl::StrCat("no coordinator listens at ", address,
                        " (connection refused): start one there, or give its "
                        "address with --coordinator=HOST:PORT");
  }
  const std::string meaning(MeaningOfConnectFailure(cause));
  if (!meaning.empty()) {
    return absl::StrCat("no connection to the coordinator at ", address, ": ",
                        meaning, " (", cause,
                        "): check --coordinator and the TLS flags, or give "
                        "--insecure if it does not use TLS");
  }
  if (ContainsAny(cause, {"ssl", "tls", "certificate", "handshake"})) {
    return absl::StrCat(
        "no secure connection to the coordinator at ", address, " (", cause,
        "): check the TLS flags, or give --insecure if it does not use TLS");
  }
  return absl::StrCat(
      "no connection to the coordinator at ", address, " (", cause,
      "): check that it runs, and that both sides use TLS or both do not");
}

// Returns true if no connection was made, so that the call cannot have arrived.
bool IsNotConnected(const std::string& cause) {
  return ContainsAny(cause, {"failed to connect", "dns resolution failed",
                             "name resolution", "name or service not known"});
}

}  // namespace

absl::Status Explain(const absl::Status& status, std::string_view address,
                     absl::Duration timeout) {
  if (status.ok() || !ReasonOf(status).empty()) return status;
  const std::string where(address);
  const std::string cause = OneLine(status);
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return WithReason(
          absl::UnavailableError(ExplainUnavailable(cause, where)),
          IsNotConnected(cause) ? reason::kNotConnected
                                : reason::kConnectionBroke);
    case absl::StatusCode::kDeadlineExceeded:
      return absl::DeadlineExceededError(absl::StrCat(
          "no answer from the coordinator at ", where, " within ",
          absl::FormatDuration(timeout),
          ": check the address; give a longer --timeout if it is only slow"));
    case absl::StatusCode::kUnimplemented:
      return WithExitCode(
          absl::UnimplementedError(absl::StrCat(
              where,
              " speaks gRPC, but is not a Ringmaster "
              "coordinator of this version",
              cause.empty() ? "" : " (", cause, cause.empty() ? "" : ")",
              ": check --coordinator, and compare versions "
              "with `ringctl version`")),
          ExitCode::kRetryElsewhere);
    default:
      return absl::Status(
          status.code(),
          absl::StrCat("the coordinator at ", where, " answered ",
                       absl::StatusCodeToString(status.code()), ": ", cause));
  }
}

}  // namespace ringmaster::ctl
