#include "tests/fuzz/parser_input.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace ringmaster::fuzz {
namespace {

constexpr int kMaxChanges = 6;
constexpr size_t kMaxPieceBytes = 64;

constexpr std::array<std::string_view, 14> kNumbers = {
    "0",
    "-1",
    "1e400",
    "-0.0",
    "nan",
    "4294967295",
    "4294967296",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "0.00000000000000000000000000000000000000000000001"};

template <typename List>
const auto& OneOf(const List& list, Random& random) {
  return list[static_cast<size_t>(
      random.Between(0, static_cast<int64_t>(std::size(list)) - 1))];
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A place in `input`, its end too.
size_t PlaceIn(std::span<const std::byte> input, Random& random) {
  return static_cast<size_t>(
      random.Between(0, static_cast<int64_t>(input.size())));
}

std::span<const std::byte> PieceOf(std::span<const std::byte> input,
                                   size_t max_bytes, Random& random) {
  const size_t at = PlaceIn(input, random);
  const size_t most = std::min(max_bytes, input.size() - at);
  return input.subspan(
      at, static_cast<size_t>(random.Between(0, static_cast<int64_t>(most))));
}

void Insert(Bytes& input, std::span<const std::byte> piece, Random& random) {
  const auto at = static_cast<std::ptrdiff_t>(PlaceIn(input, random));
  input.insert(input.begin() + at, piece.begin(), piece.end());
}

// Puts a number in place of one that is there, if any is behind some place.
void ReplaceNumber(Bytes& input, Random& random) {
  const auto is_digit = [](std::byte byte) {
    return byte >= std::byte{'0'} && byte <= std::byte{'9'};
  };
  const auto begin = std::find_if(
      input.begin() + static_cast<std::ptrdiff_t>(PlaceIn(input, random)),
      input.end(), is_digit);
  const auto end = std::find_if_not(begin, input.end(), is_digit);
  const std::span<const std::byte> number = BytesOf(OneOf(kNumbers, random));
  const auto at = input.erase(begin, end);
  input.insert(at, number.begin(), number.end());
}

// A short piece as often as there is room, or a few times.
void Repeat(Bytes& input, const Parser& parser, Random& random) {
  const std::span<const std::byte> drawn =
      parser.words.empty() || random.Chance(50)
          ? PieceOf(input, 8, random)
          : BytesOf(OneOf(parser.words, random));
  const Bytes piece(drawn.begin(), drawn.end());
  if (piece.empty()) return;
  const size_t room = kMaxInputBytes - std::min(input.size(), kMaxInputBytes);
  const auto most = static_cast<int64_t>(
      random.Chance(10) ? room : std::min<size_t>(room, 512));
  Bytes many;
  for (int64_t count =
           random.Between(0, most / static_cast<int64_t>(piece.size()));
       count > 0; --count) {
    many.insert(many.end(), piece.begin(), piece.end());
  }
  Insert(input, many, random);
}

void Change(Bytes& input, const Parser& parser, Random& random) {
  switch (random.Between(0, 9)) {
    case 0:
    case 1:
      if (!parser.words.empty())
        Insert(input, BytesOf(OneOf(parser.words, random)), random);
      break;
    case 2:
      ReplaceNumber(input, random);
      break;
    case 3:
      Insert(input,
             PieceOf(BytesOf(OneOf(parser.corpus, random)), kMaxPieceBytes,
                     random),
             random);
      break;
    case 4:
      Repeat(input, parser, random);
      break;
    case 5:
      if (random.Chance(30)) input.resize(PlaceIn(input, random));
      break;
    default:
      Mutate(input, random);
      break;
  }
}

}  // namespace

Bytes ParserInput(const Parser& parser, uint64_t seed, uint64_t index) {
  Random random(simulator::Mix(seed) + index);
  const std::string& start = OneOf(parser.corpus, random);
  const std::span<const std::byte> bytes = BytesOf(start);
  Bytes input(bytes.begin(), bytes.end());
  for (int64_t changes = random.Between(0, kMaxChanges); changes > 0; --changes)
    Change(input, parser, random);
  input.resize(std::min(input.size(), std::max(kMaxInputBytes, start.size())));
  return input;
}

absl::StatusOr<uint64_t> FuzzParser(const Parser& parser, FuzzRun run) {
  run.command = absl::StrCat("bazel run //tests/fuzz:parser_fuzz -- --parser=",
                             parser.name);
  return Fuzz(
      run,
      [&](uint64_t seed, uint64_t index) {
        return ParserInput(parser, seed, index);
      },
      [&](const uint8_t* bytes, size_t size) {
        (void)parser.try_input({reinterpret_cast<const char*>(bytes), size});
        return 0;
      });
}

}  // namespace ringmaster::fuzz
