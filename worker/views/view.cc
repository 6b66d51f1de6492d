#include "worker/views/view.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace ringmaster {
namespace {

struct PacketWriter {
  std::string operator()(const ViewHello&) const { return "hello"; }
  std::string operator()(const View& view) const {
    return absl::StrCat("view ", view.number, " ",
                        absl::StrJoin(view.ranks, ","), " ",
                        NewcomersText(view.newcomers), " ", view.why);
  }
  std::string operator()(const NoView& no_view) const {
    return absl::StrCat("no_view ", no_view.rank);
  }
  std::string operator()(const Meets& meets) const {
    return meets.is_under_way ? "meets" : "has_met";
  }
  std::string operator()(const CanGoOn& can) const {
    return absl::StrCat("can_go_on ", can.rank, " ", can.world_size);
  }
  std::string operator()(const LostRank& lost) const {
    return absl::StrCat("lost ", lost.rank, " ", lost.view);
  }
  std::string operator()(const TakesNewcomers& takes) const {
    return absl::StrCat("takes_newcomers ", takes.group);
  }
  std::string operator()(const Joins& joins) const {
    return absl::StrCat("joins ", joins.member);
  }
};

// True if `text` is a number that is not negative.
template <typename Number>
bool ParseCount(absl::string_view text, Number& number) {
  return absl::SimpleAtoi(text, &number) && number >= 0;
}

bool ParseRanks(absl::string_view text, std::vector<int>& ranks) {
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    int rank = 0;
    if (!ParseCount(word, rank)) return false;
    if (!ranks.empty() && rank <= ranks.back()) return false;
    ranks.push_back(rank);
  }
  return true;
}

}  // namespace

int64_t View::NewcomerOf(int rank) const {
  int64_t number = 0;
  for (const Newcomer& newcomer : newcomers) {
    if (newcomer.rank == rank) number = newcomer.number;
  }
  return number;
}

bool View::Has(int rank) const {
  return number == 0 || std::binary_search(ranks.begin(), ranks.end(), rank);
}

std::string NewcomersText(const std::vector<Newcomer>& newcomers) {
  return absl::StrJoin(newcomers, ";",
                       [](std::string* text, const Newcomer& newcomer) {
                         absl::StrAppend(text, newcomer.number, ",",
                                         newcomer.rank, ",", newcomer.member);
                       });
}

bool ParseNewcomers(std::string_view packed, std::vector<Newcomer>& newcomers) {
  const absl::string_view text(packed.data(), packed.size());
  if (text.empty()) return true;
  for (const absl::string_view entry : absl::StrSplit(text, ';')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(entry, absl::MaxSplits(',', 2));
    Newcomer newcomer;
    if (parts.size() != 3 || !ParseCount(parts[0], newcomer.number) ||
        !ParseCount(parts[1], newcomer.rank)) {
      return false;
    }
    const int64_t last = newcomers.empty() ? 0 : newcomers.back().number;
    if (newcomer.number <= last) return false;
    newcomer.member = std::string(parts[2]);
    newcomers.push_back(std::move(newcomer));
  }
  return true;
}

std::string ToPacket(const ViewMessage& message) {
  return std::visit(PacketWriter(), message);
}

absl::StatusOr<ViewMessage> ParseViewPacket(std::string_view packet) {
  const absl::string_view text(packet.data(), packet.size());
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::MaxSplits(' ', 4));
  const auto is = [&](absl::string_view kind, size_t count) {
    return words[0] == kind && words.size() == count;
  };
  if (is("hello", 1)) return ViewHello();
  if (is("meets", 1)) return Meets{true};
  if (is("has_met", 1)) return Meets{false};
  View view;
  if (is("view", 5) && ParseCount(words[1], view.number) && view.number > 0 &&
      ParseRanks(words[2], view.ranks) &&
      ParseNewcomers({words[3].data(), words[3].size()}, view.newcomers)) {
    view.why = std::string(words[4]);
    return view;
  }
  NoView no_view;
  if (is("no_view", 2) && ParseCount(words[1], no_view.rank)) return no_view;
  CanGoOn can;
  if (is("can_go_on", 3) && ParseCount(words[1], can.rank) &&
      ParseCount(words[2], can.world_size)) {
    return can;
  }
  LostRank lost;
  if (is("lost", 3) && ParseCount(words[1], lost.rank) &&
      ParseCount(words[2], lost.view)) {
    return lost;
  }
  if (is("takes_newcomers", 2) && !words[1].empty())
    return TakesNewcomers{std::string(words[1])};
  if (is("joins", 2) && !words[1].empty()) return Joins{std::string(words[1])};
  return absl::InvalidArgumentError(
      absl::StrCat("no message about views: ", text.substr(0, 40)));
}

}  // namespace ringmaster
