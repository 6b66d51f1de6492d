// parser_fuzz: feeds parsers of what strangers say and disks hold with inputs of a
// seed.
//
//   parser_fuzz [--parser=NAME] [--limit=10m] [--seed=1] [--first=0]
//
// Exit code 1: one of them does what it must not; stderr says what, for which
// input, and how to try it again.
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/flags.h"
#include "common/status/exit_code.h"
#include "tests/fuzz/fuzz_run.h"
#include "tests/fuzz/parser.h"
#include "tests/fuzz/parser_input.h"

namespace ringmaster::fuzz {
namespace {

struct CommandLine {
  std::string parser;
  absl::Duration limit = absl::Seconds(5);
  int64_t seed = 1;
  int64_t first = 0;
  int64_t iterations = std::numeric_limits<int64_t>::max();
};

void AddFlags(FlagSet& flags, CommandLine& line) {
  std::vector<std::string> names = {"all"};
  for (const Parser& parser : Parsers()) names.push_back(parser.name);
  line.parser = names.front();
  flags.Add({.name = "parser", .help = "Only this one.", .choices = names},
            &line.parser);
  flags.Add({.name = "limit",
             .unit = "DURATION",
             .help = "For how long, each.",
             .min = 0.001},
            &line.limit);
  flags.Add(
      {.name = "seed", .unit = "N", .help = "What all inputs follow from."},
      &line.seed);
  flags.Add({.name = "first",
             .unit = "N",
             .help = "Number of the first input.",
             .min = 0},
            &line.first);
  flags.Add({.name = "iterations",
             .unit = "N",
             .help = "How many inputs at most, each.",
             .min = 1},
            &line.iterations);
}

int Main(int argc, char** argv) {
  CommandLine line;
  FlagSet flags("parser_fuzz",
                "Feeds parsers of what strangers say and disks hold with "
                "inputs of a seed.");
  AddFlags(flags, line);
  if (const auto code = flags.ParseCommandLine(argc, argv); code.has_value())
    return static_cast<int>(*code);
  auto code = ExitCode::kDone;
  for (const Parser& parser : Parsers()) {
    if (line.parser != "all" && line.parser != parser.name) continue;
    const absl::StatusOr<uint64_t> count = FuzzParser(
        parser, {.seed = static_cast<uint64_t>(line.seed),
                 .first = static_cast<uint64_t>(line.first),
                 .iterations = static_cast<uint64_t>(line.iterations),
                 .limit = line.limit});
    if (count.ok()) {
      std::printf("%s: %" PRIu64 " inputs\n", parser.name.c_str(), *count);
      std::fflush(stdout);
      continue;
    }
    std::fprintf(stderr, "error: %s: %s\n", parser.name.c_str(),
                 std::string(count.status().message()).c_str());
    code = ExitCode::kInternal;
  }
  return static_cast<int>(code);
}

}  // namespace
}  // namespace ringmaster::fuzz

int main(int argc, char** argv) { return ringmaster::fuzz::Main(argc, argv); }
