#include "server/coordinator/core/account/memberships.h"

#include <string>
#include <utility>
#include <vector>

namespace ringmaster::coordinator {

void NoteMembers(Job& job, absl::Time time) {
  std::vector<std::string> workers;
  workers.reserve(job.members.size());
  for (const Member& member : job.members) {
    workers.push_back(member.identity.worker);
  }
  const bool goes_on =
      !job.memberships.empty() &&
      job.memberships.back().end_time == absl::InfiniteFuture() &&
      job.memberships.back().workers == workers;
  if (goes_on) return;
  NoteNoMembers(job, time);
  job.memberships.push_back({.generation = job.generation,
                             .start_time = time,
                             .first_step = job.resume_step,
                             .workers = std::move(workers)});
  size_t names = 0;
  for (const Membership& membership : job.memberships)
    names += membership.workers.size();
  while (job.memberships.size() > kMaxMemberships ||
         (names > kMaxMembershipNames && job.memberships.size() > 1)) {
    names -= job.memberships.front().workers.size();
    job.memberships.pop_front();
  }
}

void NoteNoMembers(Job& job, absl::Time time) {
  if (job.memberships.empty()) return;
  absl::Time& end = job.memberships.back().end_time;
  if (end == absl::InfiniteFuture()) end = time;
}

}  // namespace ringmaster::coordinator
