#include "worker/bench/forked_ranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// The time after a rank's error in which a death may still explain it, and the
// others may end by themselves.
constexpr absl::Duration kFailureGrace = absl::Seconds(2);

// The header of every message.
struct Header {
  int32_t rank = 0;
  int32_t code = 0;  // absl::StatusCode; not OK: the text is a rank's error
};

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat("cannot start a rank: ", what, ": ", std::strerror(errno)));
}

absl::Status SendPacket(int socket, Header header, std::string_view text) {
  RM_CHECK(text.size() <= ForkedRanks::kMaxMessageBytes, "a message fits");
  std::array<char, sizeof(Header) + ForkedRanks::kMaxMessageBytes> packet;
  std::memcpy(packet.data(), &header, sizeof(header));
  std::memcpy(packet.data() + sizeof(header), text.data(), text.size());
  ssize_t sent = 0;
  do {
    sent = ::send(socket, packet.data(), sizeof(header) + text.size(),
                  MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the parent cannot be told: ", std::strerror(errno)));
}

// A rank's whole life.
[[noreturn]] void RunRank(int rank, pid_t parent, int writer,
                          const ForkedRanks::Body& body) {
  // The parent may have ended before prctl took effect.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
    ::_exit(128 + SIGKILL);
  const absl::Status status = body(rank, [&](std::string_view message) {
    return SendPacket(writer, {rank, 0}, message);
  });
  if (status.ok()) ::_exit(0);
  const std::string_view text(status.message().data(), status.message().size());
  (void)SendPacket(writer, {rank, static_cast<int32_t>(status.code())},
                   text.substr(0, ForkedRanks::kMaxMessageBytes));
  ::_exit(1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForkedRanks>> ForkedRanks::Start(
    int count, const Body& body) {
  std::unique_ptr<ForkedRanks> ranks(new ForkedRanks);
  std::array<int, 2> ends{};
  // Packets: whole messages, whoever else is sending.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return SystemError("socketpair");
  ranks->reader_ = UniqueFd(ends[0]);
  ranks->writer_ = UniqueFd(ends[1]);
  ranks->ranks_.resize(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank)
    RETURN_IF_ERROR(ranks->Fork(rank, body));
  ranks->writer_.Reset();
  return ranks;
}

ForkedRanks::~ForkedRanks() { KillAll(); }

absl::Status ForkedRanks::Fork(int rank, const Body& body) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return SystemError("fork");
  if (pid == 0) {
    reader_.Reset();
    RunRank(rank, parent, writer_.get(), body);
  }
  Rank& started = ranks_[static_cast<size_t>(rank)];
  started.pid = pid;
  started.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return started.pidfd.is_open() ? absl::OkStatus() : SystemError("pidfd_open");
}

absl::StatusOr<std::optional<std::string>> ForkedRanks::Next(int stop_fd) {
  while (HasRanks()) {
    if (is_death_ || Clock::Real().Now() >= failure_deadline_) break;
    if (Await(stop_fd)) {
      KillAll();
      return absl::CancelledError("stopped by a signal");
    }
    // A rank that has ended by now has sent all of its report.
    std::vector<int> ended;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      pollfd end = {ranks_[rank].pidfd.get(), POLLIN, 0};
      if (ranks_[rank].pid > 0 && ::poll(&end, 1, 0) > 0)
        ended.push_back(static_cast<int>(rank));
    }
    if (std::optional<std::string> message = TakeMessage(); message.has_value())
      return message;
    for (const int rank : ended) Reap(rank);
  }
  KillAll();
  if (std::optional<std::string> message = TakeMessage(); message.has_value())
    return message;
  RETURN_IF_ERROR(failure_);
  return std::nullopt;
}

bool ForkedRanks::Await(int stop_fd) const {
  std::vector<pollfd> waits = {{stop_fd, POLLIN, 0},
                               {reader_.get(), POLLIN, 0}};
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0) waits.push_back({rank.pidfd.get(), POLLIN, 0});
  }
  // Without a failure the ranks' own deadlines end every wait.
  int milliseconds = -1;
  if (!failure_.ok()) {
    milliseconds = static_cast<int>(std::clamp<int64_t>(
        absl::ToInt64Milliseconds(failure_deadline_ - Clock::Real().Now()) + 1,
        0, INT_MAX));
  }
  (void)::poll(waits.data(), waits.size(), milliseconds);
  return waits[0].revents != 0;
}

std::optional<std::string> ForkedRanks::TakeMessage() {
  while (true) {
    std::array<char, sizeof(Header) + kMaxMessageBytes> packet;
    const ssize_t size =
        ::recv(reader_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < static_cast<ssize_t>(sizeof(Header))) return std::nullopt;
    Header header;
    std::memcpy(&header, packet.data(), sizeof(header));
    const std::string text(packet.data() + sizeof(header),
                           static_cast<size_t>(size) - sizeof(header));
    if (header.code == 0) return text;
    NoteFailure(absl::Status(static_cast<absl::StatusCode>(header.code),
                             absl::StrCat("rank ", header.rank, ": ", text)));
  }
}

void ForkedRanks::Reap(int rank) {
  Rank& ended = ranks_[static_cast<size_t>(rank)];
  int status = 0;
  while (::waitpid(ended.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ended = Rank();
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (!is_death_) {
      failure_ = absl::UnavailableError(absl::StrCat(
          "rank ", rank, " was killed by signal ", signal, " (",
          ::strsignal(signal), ")",
          signal == SIGKILL ? "; by hand, or for want of memory: see dmesg"
                            : ""));
    }
    is_death_ = true;
  } else if (WEXITSTATUS(status) != 0) {
    NoteFailure(absl::InternalError(
        absl::StrCat("rank ", rank, " ended with code ", WEXITSTATUS(status))));
  }
}

void ForkedRanks::NoteFailure(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  failure_deadline_ = Clock::Real().Now() + kFailureGrace;
}

void ForkedRanks::KillAll() {
  for (const Rank& rank : ranks_) {
    if (rank.pid > 0) ::kill(rank.pid, SIGKILL);
  }
  for (Rank& rank : ranks_) {
    if (rank.pid <= 0) continue;
    while (::waitpid(rank.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    rank = Rank();
  }
}

bool ForkedRanks::HasRanks() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.pid > 0; });
}

}  // namespace ringmaster
