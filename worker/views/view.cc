#include "worker/views/view.h"

#include <algorithm>
#include <type_traits>

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
                        absl::StrJoin(view.ranks, ","), " ", view.why);
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

bool View::Has(int rank) const {
  return number == 0 || std::binary_search(ranks.begin(), ranks.end(), rank);
}

std::string ToPacket(const ViewMessage& message) {
  return std::visit(PacketWriter(), message);
}

absl::StatusOr<ViewMessage> ParseViewPacket(std::string_view packet) {
  const absl::string_view text(packet.data(), packet.size());
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::MaxSplits(' ', 3));
  const auto is = [&](absl::string_view kind, size_t count) {
    return words[0] == kind && words.size() == count;
  };
  if (is("hello", 1)) return ViewHello();
  if (is("meets", 1)) return Meets{true};
  if (is("has_met", 1)) return Meets{false};
  View view;
  if (is("view", 4) && ParseCount(words[1], view.number) && view.number > 0 &&
      ParseRanks(words[2], view.ranks)) {
    view.why = std::string(words[3]);
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
  return absl::InvalidArgumentError(
      absl::StrCat("no message about views: ", text.substr(0, 40)));
}

}  // namespace ringmaster
