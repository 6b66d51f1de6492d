// Views: which ranks of a job's command go on together once others are lost, or
// are replaced.
//
// The workers of a job agree on them (worker/external): a view is the ranks
// whose commands live, under a number that only grows. A command that can go on
// without others hears of each new view from its worker, over a Unix socket
// whose name is in its environment (view_server.h, view_client.h). That it acts
// on views alone, and not on broken connections, is what keeps two halves of a
// job from going on side by side: "view" as in Birman and Joseph, Exploiting
// virtual synchrony in distributed systems (SOSP 1987).
//
// Messages are packets of text. Pure.
#ifndef RINGMASTER_WORKER_VIEWS_VIEW_H_
#define RINGMASTER_WORKER_VIEWS_VIEW_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace ringmaster {

// Names the socket, in the environment of a command.
inline constexpr char kViewsVariable[] = "RINGMASTER_VIEWS";
// TakesNewcomers::group, in that of a command that is to take the place of a rank
// that was lost.
inline constexpr char kGroupVariable[] = "RINGMASTER_GROUP";

// A process that takes the place of a rank that was lost.
struct Newcomer {
  int64_t number = 0;  // from 1, in the order in which they came
  int rank = 0;
  std::string member;  // what the others need to reach it (Joins)

  friend bool operator==(const Newcomer&, const Newcomer&) = default;
};

// Worker to command: these ranks, as RANK has it, go on without the others.
struct View {
  int64_t number = 0;      // from 1; 0: all ranks, nobody is lost
  std::vector<int> ranks;  // ascending
  // What became of those that this view is the first without, for people: "rank
  // 2 was killed by signal 9 (Killed)".
  std::string why;
  // The newest in the place of each rank, also those that are lost again,
  // ascending.
  std::vector<Newcomer> newcomers = {};

  [[nodiscard]] bool Has(int rank) const;
  // The number of the newcomer that `rank` is; 0: it is there from the beginning.
  [[nodiscard]] int64_t NewcomerOf(int rank) const;
  friend bool operator==(const View&, const View&) = default;
};

// Worker to command, first of all: its worker listens.
struct ViewHello {
  friend bool operator==(const ViewHello&, const ViewHello&) = default;
};

// Worker to command: no view comes on account of `rank`, which was said to be
// lost.
struct NoView {
  int rank = 0;
  friend bool operator==(const NoView&, const NoView&) = default;
};

// Command to worker: it begins to meet the other ranks, and will say that it can
// go on once all have; or it has met them in another way, and will not.
struct Meets {
  bool is_under_way = false;
  friend bool operator==(const Meets&, const Meets&) = default;
};

// Command to worker: it is `rank` of `world_size`, has met all the others, and
// can go on without any of them.
struct CanGoOn {
  int rank = 0;
  int world_size = 0;
  friend bool operator==(const CanGoOn&, const CanGoOn&) = default;
};

// Command to worker: its connection with `rank` broke in the view `view`.
struct LostRank {
  int rank = 0;
  int64_t view = 0;
  friend bool operator==(const LostRank&, const LostRank&) = default;
};

// Command to worker: it takes in newcomers, which are to have `group`, a text
// without spaces, in their environment (kGroupVariable).
struct TakesNewcomers {
  std::string group;
  friend bool operator==(const TakesNewcomers&,
                         const TakesNewcomers&) = default;
};

// Command to worker, of one that was started in the place of a rank that was
// lost: it waits for the others, who reach it by `member`, a text without
// spaces.
struct Joins {
  std::string member;
  friend bool operator==(const Joins&, const Joins&) = default;
};

using ViewMessage = std::variant<ViewHello, View, NoView, Meets, CanGoOn,
                                 LostRank, TakesNewcomers, Joins>;

// A packet is no larger.
inline constexpr size_t kMaxViewPacket = 64 << 10;

// "NUMBER,RANK,MEMBER;...".
[[nodiscard]] std::string NewcomersText(const std::vector<Newcomer>& newcomers);
// False: it is none.
[[nodiscard]] bool ParseNewcomers(std::string_view text,
                                  std::vector<Newcomer>& newcomers);

[[nodiscard]] std::string ToPacket(const ViewMessage& message);

// INVALID_ARGUMENT: not a packet of ours.
[[nodiscard]] absl::StatusOr<ViewMessage> ParseViewPacket(
    std::string_view packet);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_VIEWS_VIEW_H_
