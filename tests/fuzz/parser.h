// Parser: something that reads what strangers say or disks hold, for parser_fuzz.
#ifndef RINGMASTER_TESTS_FUZZ_PARSER_H_
#define RINGMASTER_TESTS_FUZZ_PARSER_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace ringmaster::fuzz {

struct Parser {
  std::string name;
  // Small inputs from which others are made, some of which it takes; the same on
  // each run.
  std::vector<std::string> corpus;
  // Words that mean something to it: other inputs get some of them put in.
  std::vector<std::string> words;
  // Returns whether it takes `input`; aborts where it does what it must not.
  std::function<bool(std::string_view input)> try_input;
};

// The parsers of all parts below, in a fixed order. Made once.
[[nodiscard]] const std::vector<Parser>& Parsers();

// The parts. Session messages and job specs:
[[nodiscard]] std::vector<Parser> MessageParsers();
// The journal, checkpoints, data sets and vocabularies:
[[nodiscard]] std::vector<Parser> FileParsers();
// Addresses, flags and others that are short; the data plane:
[[nodiscard]] std::vector<Parser> OtherParsers();

// Aborts unless the message of `status` fits one line of a terminal or a log: no
// line feed or other control character, and not long.
void CheckMessage(const absl::Status& status);

}  // namespace ringmaster::fuzz

#endif  // RINGMASTER_TESTS_FUZZ_PARSER_H_
