#include "tests/simulator/flags.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster::simulator {
namespace {

constexpr int kMaxJobs = 64;

absl::Status Unexpected(std::string_view argument, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(argument), ": expected ", std::string(expected)));
}

bool ParseNumber(std::string_view text, uint64_t& value) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseSeeds(std::string_view text, Flags& flags) {
  const size_t dots = text.find("..");
  const bool is_one = dots == std::string_view::npos;
  return ParseNumber(is_one ? text : text.substr(0, dots), flags.first) &&
         ParseNumber(is_one ? text : text.substr(dots + 2), flags.last) &&
         flags.first <= flags.last;
}

absl::Status ParseFlag(std::string_view argument, Flags& flags) {
  const auto value = [argument](std::string_view name) {
    return argument.starts_with(name)
               ? std::optional(argument.substr(name.size()))
               : std::nullopt;
  };
  if (const auto text = value("--seeds=")) {
    return ParseSeeds(*text, flags)
               ? absl::OkStatus()
               : Unexpected(argument, "--seeds=A..B with A <= B, or --seeds=A");
  }
  if (const auto text = value("--jobs=")) {
    uint64_t jobs = 0;
    if (!ParseNumber(*text, jobs) || jobs < 1 || jobs > kMaxJobs)
      return Unexpected(argument, absl::StrCat("1 to ", kMaxJobs));
    flags.jobs = static_cast<int>(jobs);
    return absl::OkStatus();
  }
  if (const auto text = value("--bug=")) {
    const std::optional<Bug> bug = FindBug(*text);
    if (!bug.has_value())
      return Unexpected(argument, "a name of the table in README.md, or none");
    flags.bug = *bug;
    flags.bug_name = std::string(*text);
    return absl::OkStatus();
  }
  if (const auto text = value("--holders=")) {
    const std::optional<Holders> holders = FindHolders(*text);
    if (!holders.has_value())
      return Unexpected(argument, "ranks, workers or servers");
    flags.holders = *holders;
    return absl::OkStatus();
  }
  if (argument == "--liar") {
    flags.has_liar = true;
  } else if (argument == "--many") {
    flags.has_many_jobs = true;
  } else if (argument == "--verbose") {
    flags.is_verbose = true;
  } else if (argument == "--all") {
    flags.goes_on = true;
  } else {
    return Unexpected(argument,
                      "--seeds=A..B, --jobs=N, --holders=WHO, --bug=NAME, "
                      "--liar, --many, --all or --verbose");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(std::span<const char* const> arguments) {
  Flags flags;
  for (const char* const argument : arguments)
    RETURN_IF_ERROR(ParseFlag(argument, flags));
  if (flags.has_many_jobs &&
      (flags.holders != Holders::kRanks || flags.has_liar)) {
    return absl::InvalidArgumentError(
        "--many: expected neither --liar nor --holders beside it");
  }
  return flags;
}

}  // namespace ringmaster::simulator
