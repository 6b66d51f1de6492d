#include "common/rpc/connect_failure.h"

#include <string>

#include "absl/strings/match.h"

namespace ringmaster {
namespace {

struct Meaning {
  const char* part;  // of gRPC's text
  std::string_view text;
};

constexpr std::string_view kNoHttp2 =
    "it is not a coordinator's gRPC port (it does not speak HTTP/2)";

// The first that fits. gRPC 1.51 and OpenSSL 3.
constexpr Meaning kMeanings[] = {
    {"wrong version number", "it does not speak TLS, and this program does"},
    {"certificate verify failed",
     "its certificate is not signed by an authority of --tls_ca_file"},
    {"Failed parsing HTTP/2", kNoHttp2},
    {"http1.x server", kNoHttp2},
    {"SETTINGS frame", kNoHttp2},
    // A server of TLS closes a connection whose first words are not TLS.
    {"Socket closed",
     "it takes the connection and closes it at once: perhaps it speaks TLS and "
     "this program does not, or it refuses this program's certificate"},
};

}  // namespace

std::string_view MeaningOfConnectFailure(std::string_view text) {
  const absl::string_view all(text.data(), text.size());
  // Words about a connection that was in use are no news of who is there.
  if (!absl::StrContains(all, "failed to connect")) return "";
  for (const Meaning& meaning : kMeanings) {
    if (absl::StrContains(all, meaning.part)) return meaning.text;
  }
  return "";
}

}  // namespace ringmaster
