// wire_fuzz: feeds the parsers of the data plane with inputs of a seed.
//
//   wire_fuzz --iterations=10000000 [--seed=1] [--first=0]
//
// Exit code 1: one of them does what it must not; stderr says what, for which
// input, and how to try it again.
#include <chrono>
#include <cstdio>
#include <string>

#include "common/config/flags.h"
#include "common/status/exit_code.h"
#include "tests/fuzz/fuzz_run.h"
#include "tests/fuzz/wire_fuzzer.h"

namespace ringmaster::fuzz {
namespace {

int Main(int argc, char** argv) {
  int64_t seed = 1;
  int64_t first = 0;
  int64_t iterations = 1'000'000;
  FlagSet flags("wire_fuzz",
                "Feeds the parsers of the data plane with inputs of a seed.");
  flags.Add(
      {.name = "seed", .unit = "N", .help = "What all inputs follow from."},
      &seed);
  flags.Add({.name = "first",
             .unit = "N",
             .help = "Number of the first input.",
             .min = 0},
            &first);
  flags.Add(
      {.name = "iterations", .unit = "N", .help = "How many inputs.", .min = 1},
      &iterations);
  if (const auto code = flags.ParseCommandLine(argc, argv); code.has_value())
    return static_cast<int>(*code);
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<uint64_t> count =
      Fuzz({.seed = static_cast<uint64_t>(seed),
            .first = static_cast<uint64_t>(first),
            .iterations = static_cast<uint64_t>(iterations)},
           InputOf, LLVMFuzzerTestOneInput);
  if (!count.ok()) {
    std::fprintf(stderr, "error: %s\n",
                 std::string(count.status().message()).c_str());
    return static_cast<int>(ExitCode::kInternal);
  }
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - start;
  std::printf("%lld inputs in %.1f s\n", static_cast<long long>(iterations),
              passed.count());
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace
}  // namespace ringmaster::fuzz

int main(int argc, char** argv) { return ringmaster::fuzz::Main(argc, argv); }
