// MeetMembers: the ranks of a process group learn where the others are.
//
// Rank 0 collects what each rank has put into the store, and puts it there as
// one list with an identity and a secret of the group, so that a group of n
// ranks costs the store 2n messages a rank at most for rank 0, and two for the
// others. Whoever may read the store knows the secret, as with any of PyTorch's
// back ends.
#ifndef RINGMASTER_WORKER_TORCH_RENDEZVOUS_H_
#define RINGMASTER_WORKER_TORCH_RENDEZVOUS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/torch/group_store.h"

namespace ringmaster {

struct GroupMember {
  std::string host_key;         // ThisHostKey
  std::string address;          // "host:port" of its listener for collectives
  std::string message_address;  // of the one for messages
  int job_rank = -1;  // its RANK, by which views know it; -1: it follows none
};

struct GroupMembers {
  std::string id;                    // of this group alone
  std::string secret;                // random, enough for handshakes
  std::vector<GroupMember> members;  // by rank
};

// What a rank that uses another back end puts in the place of its member, with
// the reason behind it. In the place of the list rank 0 puts it with a sentence
// that names the rank. sitecustomize.py does so, too.
inline constexpr char kDeclined[] = "declined: ";

// Has `show` called once, on any thread, with a wait of `after` that is not over.
struct WaitNote {
  absl::Duration after = absl::InfiniteDuration();
  std::function<void(const std::string& line)> show = {};
};

//   DEADLINE_EXCEEDED    names the ranks that have not come within `limit`, or
//                        rank 0
//   UNIMPLEMENTED        a rank has declined (kDeclined): all get to know why
//   FAILED_PRECONDITION  the store holds something else
//   UNAVAILABLE          the store is gone
[[nodiscard]] absl::StatusOr<GroupMembers> MeetMembers(GroupStore& store,
                                                       int rank, int world_size,
                                                       const GroupMember& self,
                                                       absl::Duration limit,
                                                       const WaitNote& note);

// Returns the address, as it stands in "host:port", that members on other hosts
// reach this host at: that of the interface `interface_name`, if it is not empty, else the one that packets
// to `store_host` leave from, which is loopback if that is.
//   NOT_FOUND, FAILED_PRECONDITION  of AddressOfInterface
//   UNAVAILABLE                     no way leads to the store
[[nodiscard]] absl::StatusOr<std::string> AddressTowards(
    const std::string& store_host, const std::string& interface_name);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_RENDEZVOUS_H_
