#include "worker/torch/rendezvous.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/clock/clock.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/transport/handshake.h"
#include "common/transport/socket_address.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {
namespace {

constexpr char kMembersKey[] = "ringmaster/members";
// At most so many ranks are named.
constexpr size_t kMostNamed = 16;
// What is left for a rank that comes after the time is over: those that are there
// already are found at once.
constexpr absl::Duration kLastLook = absl::Milliseconds(1);

std::string MemberKey(int rank) {
  return absl::StrCat("ringmaster/member/", rank);
}

std::string ToText(const GroupMember& member) {
  return absl::StrCat(member.host_key, " ", member.address, " ",
                      member.message_address, " ", member.job_rank);
}

// The text behind kDeclined.
std::optional<std::string> DeclinedText(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kDeclined)) return std::nullopt;
  return std::string(text);
}

// Tells of the wait of one meeting. The store is asked but once for each key: a
// client of TCPStore (1.13) cannot take a wait back that was not over in time.
class LateNote {
 public:
  explicit LateNote(const WaitNote& note) : note_(note) {
    if (note.after < absl::InfiniteDuration())
      thread_ = std::thread([this] { Run(); });
  }
  ~LateNote() {
    {
      MutexLock lock(mutex_);
      is_over_ = true;
    }
    changed_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }
  LateNote(const LateNote&) = delete;
  LateNote& operator=(const LateNote&) = delete;

  // What it would tell from now on.
  void WaitsFor(std::string text) {
    MutexLock lock(mutex_);
    text_ = std::move(text);
  }

 private:
  void Run() {
    const MonotonicTime due = Clock::Real().Now() + note_.after;
    MutexLock lock(mutex_);
    while (!is_over_) {
      if (changed_.WaitUntil(mutex_, Clock::Real(), due)) continue;
      if (!is_over_) {
        note_.show(absl::StrCat(text_, " for ",
                                absl::ToInt64Seconds(note_.after), " s"));
      }
      return;
    }
  }

  const WaitNote& note_;
  Mutex mutex_;
  CondVar changed_;
  std::string text_ GUARDED_BY(mutex_);
  bool is_over_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

absl::StatusOr<GroupMember> MemberOf(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  GroupMember member;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[3], &member.job_rank)) {
    return absl::FailedPreconditionError(
        "the store of the process group holds no member of ours: do all ranks "
        "use the same back end?");
  }
  member.host_key = parts[0];
  member.address = parts[1];
  member.message_address = parts[2];
  return member;
}

absl::StatusOr<std::string> RandomHex() {
  ASSIGN_OR_RETURN(const Nonce nonce, NewNonce());
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(nonce.data()), nonce.size()));
}

absl::StatusOr<std::string> CollectMembers(GroupStore& store, int world_size,
                                           absl::Duration limit,
                                           LateNote& late) {
  const absl::Time deadline = absl::Now() + limit;
  ASSIGN_OR_RETURN(const std::string id, RandomHex());
  ASSIGN_OR_RETURN(const std::string secret, RandomHex());
  std::vector<std::string> lines;
  lines.push_back(id);
  lines.push_back(secret);
  std::vector<int> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    const absl::Duration left = deadline - absl::Now();
    late.WaitsFor(absl::StrCat(
        "rank 0 has waited to make a process group with rank ", rank));
    absl::StatusOr<std::string> member =
        store.Get(MemberKey(rank), std::max(left, kLastLook));
    if (absl::IsDeadlineExceeded(member.status())) {
      missing.push_back(rank);
      continue;
    }
    RETURN_IF_ERROR(member.status());
    if (const auto why = DeclinedText(*member); why.has_value()) {
      return absl::UnimplementedError(
          absl::StrCat("rank ", rank, " uses another back end: ", *why));
    }
    RETURN_IF_ERROR(MemberOf(*member).status());
    lines.push_back(*std::move(member));
  }
  if (missing.empty()) return absl::StrJoin(lines, "\n");
  const size_t count = missing.size();
  missing.resize(std::min(count, kMostNamed));
  return absl::DeadlineExceededError(absl::StrCat(
      "of the ", world_size, " ranks of the process group ", count,
      " did not come within ", absl::FormatDuration(limit), ": rank ",
      absl::StrJoin(missing, ", "), count > kMostNamed ? ", ..." : ""));
}

}  // namespace

absl::StatusOr<GroupMembers> MeetMembers(GroupStore& store, int rank,
                                         int world_size,
                                         const GroupMember& self,
                                         absl::Duration limit,
                                         const WaitNote& note) {
  RETURN_IF_ERROR(store.Set(MemberKey(rank), ToText(self)));
  LateNote late(note);
  if (rank == 0) {
    const absl::StatusOr<std::string> all =
        CollectMembers(store, world_size, limit, late);
    if (absl::IsUnimplemented(all.status())) {
      RETURN_IF_ERROR(store.Set(
          kMembersKey, absl::StrCat(kDeclined, all.status().message())));
    }
    RETURN_IF_ERROR(all.status());
    RETURN_IF_ERROR(store.Set(kMembersKey, *all));
  }
  late.WaitsFor(absl::StrCat("rank ", rank,
                             " has waited for rank 0 to list a process group"));
  const absl::StatusOr<std::string> all = store.Get(kMembersKey, limit);
  if (absl::IsDeadlineExceeded(all.status())) {
    return absl::DeadlineExceededError(absl::StrCat(
        "rank ", rank, " waited for rank 0 to list the process group for ",
        absl::FormatDuration(limit),
        ": it, or another rank, did not make this group, or did so with "
        "another back end"));
  }
  RETURN_IF_ERROR(all.status());
  if (const auto why = DeclinedText(*all); why.has_value())
    return absl::UnimplementedError(*why);
  const std::vector<std::string> lines = absl::StrSplit(*all, '\n');
  if (lines.size() != static_cast<size_t>(world_size) + 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("the store of the process group lists other than the ",
                     world_size, " ranks that this rank expects"));
  }
  GroupMembers members = {lines[0], lines[1], {}};
  for (size_t i = 2; i < lines.size(); ++i) {
    ASSIGN_OR_RETURN(GroupMember member, MemberOf(lines[i]));
    members.members.push_back(std::move(member));
  }
  return members;
}

absl::StatusOr<std::string> AddressTowards(const std::string& store_host,
                                           const std::string& interface_name) {
  const auto in_brackets = [](const std::string& host) {
    return !absl::StrContains(host, ":") ? host : absl::StrCat("[", host, "]");
  };
  if (!interface_name.empty()) {
    ASSIGN_OR_RETURN(const std::string own, AddressOfInterface(interface_name));
    return in_brackets(own);
  }
  // The port is of no account: connecting a datagram socket sends nothing.
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                   Resolve(absl::StrCat(in_brackets(store_host), ":9")));
  const SocketAddress& address = addresses.front();
  const UniqueFd socket_fd(
      socket(address.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_fd.is_open() ||
      connect(socket_fd.get(), address.get(), address.length) != 0) {
    return absl::UnavailableError(
        absl::StrCat("no way leads to ", store_host, ": ", strerror(errno)));
  }
  ASSIGN_OR_RETURN(const SocketAddress own, LocalAddress(socket_fd.get()));
  const std::string text = own.ToString();
  return text.substr(0, text.rfind(':'));  // "10.0.0.7" or "[fd00::7]"
}

}  // namespace ringmaster
