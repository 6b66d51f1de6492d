// Inputs for a parser: changed ones of its corpus.
#ifndef RINGMASTER_TESTS_FUZZ_PARSER_INPUT_H_
#define RINGMASTER_TESTS_FUZZ_PARSER_INPUT_H_

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_run.h"
#include "tests/fuzz/parser.h"
#include "tests/fuzz/wire_input.h"

namespace ringmaster::fuzz {

// No input is larger, unless one of the corpus is.
inline constexpr size_t kMaxInputBytes = size_t{64} << 10;

// Input `index` of `seed`: one of `parser`'s corpus with up to six changes: those of
// Mutate, and what text is sensitive to: words, numbers at borders, other inputs'
// pieces, and pieces that come again and again. Equal everywhere and always.
[[nodiscard]] Bytes ParserInput(const Parser& parser, uint64_t seed,
                                uint64_t index);

// Fuzz of `parser` with ParserInput; `run.command` is its own.
[[nodiscard]] absl::StatusOr<uint64_t> FuzzParser(const Parser& parser,
                                                  FuzzRun run);

}  // namespace ringmaster::fuzz

#endif  // RINGMASTER_TESTS_FUZZ_PARSER_INPUT_H_
