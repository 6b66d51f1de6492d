// LocalCluster: a coordinator, workers and parameter servers on this machine,
// as children of this process, with their logs in one directory.
//
// Thread-compatible: used by the thread that made it, which must live as long
// (see Subprocess). The destructor kills what still runs.
#ifndef RINGMASTER_SERVER_CTL_LOCAL_LOCAL_CLUSTER_H_
#define RINGMASTER_SERVER_CTL_LOCAL_LOCAL_CLUSTER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/subprocess.h"

namespace ringmaster::ctl {

struct LocalClusterOptions {
  std::string coordinator_binary;
  std::string worker_binary;
  std::string parameter_server_binary = "";  // where there are such
  std::string run_dir;                       // exists
  int worker_threads = 1;
  // For every worker, beside what it needs.
  std::vector<std::string> worker_arguments = {};
  // Workers are the slots of one program, so that each takes a GPU of its own.
  bool are_workers_slots = false;
  // The address of this machine where the coordinator listens. Beyond loopback
  // its children are allowed clear text.
  std::string listen_host = "127.0.0.1";
  // The address of the coordinator's page; "": it has none.
  std::string page_listen = "";
  // The program and arguments that start a member for us, as {"/sbin/ip",
  // "netns", "exec", NAME}, by how many were started before; by default none.
  std::function<std::vector<std::string>(int index)> launcher = nullptr;
  // For every member, beside what it needs.
  std::vector<std::string> member_arguments = {};
  // The time that the coordinator may take until it listens.
  absl::Duration start_limit = absl::Seconds(20);
  // The time that children may take to end politely.
  absl::Duration stop_limit = absl::Seconds(5);
};

class LocalCluster {
 public:
  explicit LocalCluster(LocalClusterOptions options);
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;
  ~LocalCluster() = default;

  // Starts the coordinator on a free port of listen_host and returns its
  // address once it listens. `check` is called while it waits; its error ends
  // that. An error of the coordinator's quotes the end of its log.
  [[nodiscard]] absl::StatusOr<std::string> StartCoordinator(
      const std::function<absl::Status()>& check);

  // The port of the coordinator's page, once it has started; "": it has none.
  [[nodiscard]] const std::string& page_port() const { return page_port_; }

  // Starts workers worker-0 .. worker-(count-1) of the coordinator at
  // `address`; as slots of one program they have the log of worker-0. One that
  // is killed comes back by itself.
  [[nodiscard]] absl::Status StartWorkers(const std::string& address,
                                          int count);

  // The same with parameter servers server-0 .. server-(count-1).
  [[nodiscard]] absl::Status StartParameterServers(const std::string& address,
                                                   int count);

  // An error once the coordinator has ended, or, if `needs_all_members`, any
  // worker or parameter server; it quotes the end of the log and carries the
  // child's exit code if that is one of ours.
  [[nodiscard]] absl::Status Check(bool needs_all_members);

  // Ends the members, then the coordinator: politely, then by force. Removes
  // the coordinator's state; logs stay.
  void Stop();

  // The log of member `name`; "" if there is no such member.
  [[nodiscard]] std::string LogOf(const std::string& name) const;

 private:
  struct Child {
    std::string name;
    std::string log;
    Subprocess process;
  };

  [[nodiscard]] absl::StatusOr<Child> StartChild(
      const std::string& name, const std::string& program,
      std::vector<std::string> arguments);
  // Members NAME-0 .. NAME-(count-1) of the coordinator at `address`.
  [[nodiscard]] absl::Status StartMembers(
      const std::string& name, const std::string& program,
      const std::string& address, int count,
      const std::vector<std::string>& arguments);
  [[nodiscard]] static absl::Status EndedError(Child& child);
  // With what children need where the coordinator is not on loopback.
  [[nodiscard]] std::vector<std::string> WithSecurity(
      std::vector<std::string> arguments) const;

  const LocalClusterOptions options_;
  std::string scratch_dir_;  // the coordinator's state; "" before it
  std::string page_port_;
  std::optional<Child> coordinator_;
  std::vector<Child> members_;  // workers and parameter servers
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_LOCAL_LOCAL_CLUSTER_H_
