// LinkNamespaces emulates hosts on this machine, connected by a network of
// limited speed: a network namespace each, on one switch, with a token bucket
// (tc-tbf) in each direction of each host's link.
//
// Needs root, iproute2 and a kernel with namespaces and tbf. The coordinator
// stays outside, at address(), and reaches all hosts. Thread-compatible; used
// by the thread that made it. The destructor removes everything.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_LINK_NAMESPACES_H_
#define RINGMASTER_SERVER_CTL_COMPARE_LINK_NAMESPACES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ringmaster::ctl {

struct LinkNamespacesOptions {
  int hosts = 1;  // at most 200
  double bytes_per_second = 0;
  std::string scratch_dir = {};  // exists; takes the script and its log
};

class LinkNamespaces {
 public:
  // FAILED_PRECONDITION says what is missing: then links can be limited in the
  // transport alone.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LinkNamespaces>> Make(
      const LinkNamespacesOptions& options);
  LinkNamespaces(const LinkNamespaces&) = delete;
  LinkNamespaces& operator=(const LinkNamespaces&) = delete;
  ~LinkNamespaces();

  // The address where the coordinator listens.
  [[nodiscard]] const std::string& address() const { return address_; }
  // The command that starts a program on host `index`.
  [[nodiscard]] std::vector<std::string> Launcher(int index) const;

 private:
  LinkNamespaces(LinkNamespacesOptions options, pid_t pid);

  [[nodiscard]] std::string Name(int index) const;
  [[nodiscard]] std::string SetUpScript() const;
  [[nodiscard]] std::string RemoveScript() const;
  [[nodiscard]] absl::Status RunScript(const std::string& name,
                                       const std::string& text) const;

  const LinkNamespacesOptions options_;
  const std::string prefix_;   // of namespaces and devices
  const std::string network_;  // "198.18.7."
  const std::string address_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_LINK_NAMESPACES_H_
