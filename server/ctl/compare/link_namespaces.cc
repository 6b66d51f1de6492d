#include "server/ctl/compare/link_namespaces.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/process/subprocess.h"
#include "common/status/status_macros.h"
#include "server/ctl/local/run_directory.h"

namespace ringmaster::ctl {
namespace {

constexpr absl::Duration kScriptLimit = absl::Seconds(60);
constexpr std::string_view kIp = "/sbin/ip";

// Jumbo frames: with the usual ones two cores cannot fill a few fast links.
constexpr int kMtu = 9000;

// Returns the bytes that may pass at once: few compared with a bucket of
// gradients, which would otherwise seem to travel faster than the link, but
// more than a frame.
int64_t BurstBytes(double bytes_per_second) {
  return std::max<int64_t>(2 * kMtu,
                           static_cast<int64_t>(bytes_per_second / 4000));
}

}  // namespace

LinkNamespaces::LinkNamespaces(LinkNamespacesOptions options, pid_t pid)
    : options_(std::move(options)),
      prefix_(absl::StrCat("rmc", pid)),
      // 198.18.0.0/15 is for measuring networks (RFC 2544).
      network_(absl::StrCat("198.18.", pid % 256, ".")),
      address_(absl::StrCat(network_, "254")) {}

std::string LinkNamespaces::Name(int index) const {
  return absl::StrCat(prefix_, "-", index);
}

std::string LinkNamespaces::SetUpScript() const {
  const std::string hub = prefix_ + "-hub";
  const std::string shape = absl::StrCat(
      "root tbf rate ", static_cast<int64_t>(8 * options_.bytes_per_second),
      "bit burst ", BurstBytes(options_.bytes_per_second), " latency 50ms\n");
  std::string script =
      absl::StrCat("set -e\nPATH=$PATH:/sbin:/usr/sbin\nip netns add ", hub,
                   "\nip -n ", hub, " link add br0 type bridge\nip -n ", hub,
                   " link set br0 up\nip link add ", prefix_,
                   " type veth peer name out netns ", hub, "\nip addr add ",
                   address_, "/24 dev ", prefix_, "\nip link set ", prefix_,
                   " up\nip -n ", hub, " link set out master br0 up\n");
  for (int i = 0; i < options_.hosts; ++i) {
    const std::string host = Name(i);
    const std::string port = absl::StrCat("port", i);
    absl::StrAppend(
        &script, "ip netns add ", host, "\nip -n ", hub, " link add ", port,
        " mtu ", kMtu, " type veth peer name eth0 mtu ", kMtu, " netns ", host,
        "\nip -n ", hub, " link set ", port, " master br0 up\nip -n ", host,
        " addr add ", network_, i + 1, "/24 dev eth0\nip -n ", host,
        " link set eth0 up\nip -n ", host, " link set lo up\ntc -n ", host,
        " qdisc add dev eth0 ", shape, "tc -n ", hub, " qdisc add dev ", port,
        " ", shape);
  }
  return script;
}

std::string LinkNamespaces::RemoveScript() const {
  std::string script =
      absl::StrCat("PATH=$PATH:/sbin:/usr/sbin\nip link del ", prefix_,
                   "\nip netns del ", prefix_, "-hub\n");
  for (int i = 0; i < options_.hosts; ++i)
    absl::StrAppend(&script, "ip netns del ", Name(i), "\n");
  return script;
}

absl::Status LinkNamespaces::RunScript(const std::string& name,
                                       const std::string& text) const {
  const std::string path = absl::StrCat(options_.scratch_dir, "/", name);
  const std::string log = path + ".log";
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file.good()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write the file ", path));
  }
  ASSIGN_OR_RETURN(Subprocess shell,
                   Subprocess::Start({"/bin/sh", {path}, log}));
  const std::optional<int> code = shell.Wait(kScriptLimit);
  if (code == 0) return absl::OkStatus();
  const std::vector<std::string> lines = LastLines(log, 1);
  return absl::FailedPreconditionError(
      absl::StrCat("links cannot be made with network namespaces: ",
                   lines.empty() ? "its script did not end" : lines.back()));
}

absl::StatusOr<std::unique_ptr<LinkNamespaces>> LinkNamespaces::Make(
    const LinkNamespacesOptions& options) {
  if (geteuid() != 0) {
    return absl::FailedPreconditionError(
        "links can be made with network namespaces by root alone");
  }
  std::unique_ptr<LinkNamespaces> links(
      new LinkNamespaces(options, ::getpid()));
  RETURN_IF_ERROR(links->RunScript("links_up.sh", links->SetUpScript()));
  return links;
}

LinkNamespaces::~LinkNamespaces() {
  // Namespaces that were not made cannot be removed: no reason to complain.
  (void)RunScript("links_down.sh", RemoveScript());
}

std::vector<std::string> LinkNamespaces::Launcher(int index) const {
  return {std::string(kIp), "netns", "exec", Name(index)};
}

}  // namespace ringmaster::ctl
