#include "worker/device/cuda/emulator/nccl_hub.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/status/check.h"
#include "worker/device/cuda/emulator/nccl_reduce.h"

namespace ringmaster::cuda_emulator {
namespace {

constexpr uint64_t kMagic = 0x656d756c61746564;  // "emulated"
constexpr std::chrono::seconds kMeetingTime(60);

struct Answer {
  int32_t result = ncclSuccess;
  uint64_t bytes = 0;
};

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void SetNoDelay(int socket) {
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

// Returns the bytes that `rank` sends in a round.
size_t SentBytes(const NcclRoundHeader& header, int rank, size_t ranks) {
  if (header.round == NcclRound::kHello) return sizeof(NcclHello);
  const size_t bytes = header.count * NcclElementBytes(header.dtype);
  if (header.round == NcclRound::kReduceScatter) return bytes * ranks;
  if (header.round == NcclRound::kBroadcast && rank != header.root) return 0;
  return bytes;
}

// A rank's connection, as the hub sees it.
struct Member {
  UniqueFd socket;
  NcclRoundHeader header;
  std::vector<std::byte> part;  // with the header in front, until it is whole
  size_t received = 0;
  bool has_header = false;
  bool is_whole = false;
};

class Hub {
 public:
  Hub(UniqueFd listener, uint64_t secret)
      : listener_(std::move(listener)), secret_(secret) {}

  void Run() {
    if (!Meet()) return;
    while (ReceiveRound()) {
      if (!AnswerRound()) return;
      for (Member& member : members_) member.is_whole = false;
    }
  }

 private:
  bool Meet();
  bool Admit(UniqueFd socket);
  bool ReceiveRound();
  bool Receive(int rank, Member& member);
  bool AnswerRound();
  bool Send(const Member& member, Answer answer, const std::byte* data);
  ncclResult_t CheckHellos() const;

  const UniqueFd listener_;
  const uint64_t secret_;
  size_t joined_ = 0;
  std::vector<Member> members_;  // by rank
};

bool ReadAll(int socket, void* data, size_t bytes) {
  return recv(socket, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

bool WriteAll(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

// Waits until all ranks are there. The first round finds ranks that have left
// meanwhile.
bool Hub::Meet() {
  const auto deadline = std::chrono::steady_clock::now() + kMeetingTime;
  while (members_.empty() || joined_ < members_.size()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting = {listener_.get(), POLLIN, 0};
    if (left.count() <= 0 ||
        poll(&waiting, 1, static_cast<int>(left.count())) == 0) {
      return false;
    }
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.is_open() && !Admit(std::move(socket))) return false;
  }
  return true;
}

// A stranger is sent away; ranks that cannot be together end the hub.
bool Hub::Admit(UniqueFd socket) {
  SetNoDelay(socket.get());
  uint64_t secret = 0;
  NcclRoundHeader header;
  NcclHello hello;
  if (!ReadAll(socket.get(), &secret, sizeof(secret)) || secret != secret_ ||
      !ReadAll(socket.get(), &header, sizeof(header)) ||
      !ReadAll(socket.get(), &hello, sizeof(hello))) {
    return true;
  }
  if (members_.empty()) members_.resize(static_cast<size_t>(hello.ranks));
  if (static_cast<size_t>(hello.ranks) != members_.size()) return false;
  Member& member = members_.at(static_cast<size_t>(hello.rank));
  if (member.socket.is_open()) return false;
  member.socket = std::move(socket);
  member.header = header;
  member.part.resize(sizeof(hello));
  std::memcpy(member.part.data(), &hello, sizeof(hello));
  member.is_whole = true;
  ++joined_;
  return true;
}

bool Hub::ReceiveRound() {
  while (true) {
    bool is_complete = true;
    std::vector<pollfd> fds;
    for (const Member& member : members_) {
      is_complete = is_complete && member.is_whole;
      fds.push_back({member.socket.get(), POLLIN, 0});
    }
    if (is_complete) return true;
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return false;
    for (size_t rank = 0; rank < fds.size(); ++rank) {
      if (fds[rank].revents == 0) continue;
      if (!Receive(static_cast<int>(rank), members_[rank])) return false;
    }
  }
}

// Reads what is there; false if the rank is gone.
bool Hub::Receive(int rank, Member& member) {
  if (member.is_whole) {
    // A rank sends nothing before it was answered.
    char byte = 0;
    return recv(member.socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
  }
  if (!member.has_header) {
    if (!ReadAll(member.socket.get(), &member.header, sizeof(member.header))) {
      return false;
    }
    member.has_header = true;
    member.received = 0;
    member.part.resize(SentBytes(member.header, rank, members_.size()));
  } else {
    const ssize_t got =
        recv(member.socket.get(), member.part.data() + member.received,
             member.part.size() - member.received, 0);
    if (got <= 0) return false;
    member.received += static_cast<size_t>(got);
  }
  if (member.received == member.part.size()) {
    member.has_header = false;
    member.is_whole = true;
  }
  return true;
}

ncclResult_t Hub::CheckHellos() const {
  std::set<std::pair<std::string, int>> seen;
  for (const Member& member : members_) {
    NcclHello hello;
    std::memcpy(&hello, member.part.data(), sizeof(hello));
    const std::string host(hello.host, strnlen(hello.host, sizeof(hello.host)));
    if (!seen.emplace(host, hello.device).second) return ncclInvalidUsage;
  }
  return ncclSuccess;
}

bool Hub::AnswerRound() {
  const NcclRoundHeader& header = members_[0].header;
  Answer answer;
  std::vector<std::byte> data;
  std::vector<const std::byte*> parts;
  for (const Member& member : members_) {
    if (member.header != header) answer.result = ncclInvalidUsage;
    parts.push_back(member.part.data());
  }
  const size_t element = NcclElementBytes(header.dtype);
  const size_t bytes = header.count * element;
  if (answer.result == ncclSuccess) {
    switch (header.round) {
      case NcclRound::kHello:
        answer.result = CheckHellos();
        break;
      case NcclRound::kAllReduce:
      case NcclRound::kReduce:
      case NcclRound::kReduceScatter:
        data.resize(members_[0].part.size());
        answer.result = NcclReduce(header.dtype, header.op,
                                   data.size() / element, parts, data.data());
        break;
      case NcclRound::kBroadcast:
        data = members_.at(static_cast<size_t>(header.root)).part;
        break;
      case NcclRound::kGather:
        for (const Member& member : members_) {
          data.insert(data.end(), member.part.begin(), member.part.end());
        }
        break;
    }
  }
  if (answer.result != ncclSuccess) data.clear();
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const std::byte* from = data.data();
    answer.bytes = data.size();
    if (header.round == NcclRound::kReduceScatter && !data.empty()) {
      from += bytes * rank;
      answer.bytes = bytes;
    } else if (header.round == NcclRound::kReduce &&
               static_cast<int32_t>(rank) != header.root) {
      answer.bytes = 0;
    }
    if (!Send(members_[rank], answer, from)) return false;
  }
  return true;
}

bool Hub::Send(const Member& member, Answer answer, const std::byte* data) {
  return WriteAll(member.socket.get(), &answer, sizeof(answer)) &&
         WriteAll(member.socket.get(), data, answer.bytes);
}

}  // namespace

ncclResult_t StartNcclHub(NcclHubAddress* address) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in bound = Loopback(0);
  socklen_t length = sizeof(bound);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&bound), length) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound),
                  &length) != 0) {
    return ncclSystemError;
  }
  std::random_device random;
  address->magic = kMagic;
  address->secret = (uint64_t{random()} << 32) | random();
  address->port = ntohs(bound.sin_port);
  auto hub = std::make_unique<Hub>(std::move(listener), address->secret);
  try {
    // It belongs to the ranks' connections and ends with them, as NCCL's own
    // bootstrap thread does.
    std::thread([hub = std::move(hub)] { hub->Run(); }).detach();
  } catch (const std::system_error&) {
    return ncclSystemError;
  }
  return ncclSuccess;
}

NcclLink::NcclLink() : abort_fd_(eventfd(0, EFD_CLOEXEC)) {
  RM_CHECK(abort_fd_.is_open(), "no descriptors left");
}

ncclResult_t NcclLink::Connect(const NcclHubAddress& address) {
  if (address.magic != kMagic) return ncclInvalidArgument;
  socket_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in hub = Loopback(address.port);
  if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&hub),
              sizeof(hub)) != 0) {
    return ncclSystemError;
  }
  SetNoDelay(socket_.get());
  uint64_t secret = address.secret;
  return Transfer(true, &secret, sizeof(secret)) ? ncclSuccess
                                                 : ncclRemoteError;
}

ncclResult_t NcclLink::Exchange(const NcclRoundHeader& header,
                                const void* send_data, size_t send_bytes,
                                void* receive, size_t receive_bytes) {
  NcclRoundHeader out = header;
  Answer answer;
  const bool is_through =
      Transfer(true, &out, sizeof(out)) &&
      Transfer(true, const_cast<void*>(send_data), send_bytes) &&
      Transfer(false, &answer, sizeof(answer));
  if (is_aborted_) return ncclInProgress;
  if (!is_through) return ncclRemoteError;
  if (answer.result != ncclSuccess) {
    return static_cast<ncclResult_t>(answer.result);
  }
  RM_CHECK(answer.bytes == receive_bytes, "an answer of another size");
  if (Transfer(false, receive, receive_bytes)) return ncclSuccess;
  return is_aborted_ ? ncclInProgress : ncclRemoteError;
}

// False if the connection ended or Abort was called.
bool NcclLink::Transfer(bool is_send, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd fds[] = {
        {socket_.get(), static_cast<short>(is_send ? POLLOUT : POLLIN), 0},
        {abort_fd_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return false;
    if (is_aborted_) return false;
    const ssize_t moved =
        is_send ? send(socket_.get(), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                : recv(socket_.get(), at, bytes, MSG_DONTWAIT);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (moved <= 0) return false;
    at += moved;
    bytes -= static_cast<size_t>(moved);
  }
  return true;
}

void NcclLink::Abort() {
  is_aborted_ = true;
  eventfd_write(abort_fd_.get(), 1);
}

void NcclLink::AwaitAbort() const {
  pollfd fd = {abort_fd_.get(), POLLIN, 0};
  while (!is_aborted_) poll(&fd, 1, -1);
}

void NcclLink::Shutdown() {
  if (socket_.is_open()) shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace ringmaster::cuda_emulator
