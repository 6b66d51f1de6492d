#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/config/address.h"
#include "common/config/byte_count.h"
#include "common/config/flags.h"
#include "common/config/port_range.h"
#include "common/fail_point/fail_point.h"
#include "common/status/check.h"
#include "tests/fuzz/parser.h"
#include "tests/fuzz/wire_input.h"
#include "tests/fuzz/wire_target.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/nn/model_config.h"

namespace ringmaster::fuzz {
namespace {

bool TryAddress(std::string_view text) {
  (void)IsLoopback(text);
  const absl::StatusOr<HostPort> address = ParseHostPort(text);
  if (!address.ok()) return false;
  const absl::StatusOr<HostPort> again = ParseHostPort(address->ToString());
  RM_CHECK(again.ok() && *again == *address,
           "an address is another one once it was written");
  return true;
}

bool TryFailPoints(std::string_view text) {
  const absl::Status status = FailPoint::ArmFromText(text);
  FailPoint::DisarmAll();
  return status.ok();
}

bool TryModel(std::string_view text) {
  const auto model = ModelConfig::FromCanonicalText(std::string(text));
  CheckMessage(model.status());
  if (!model.ok()) return false;
  const std::string line = model->CanonicalText();
  const auto again = ModelConfig::FromCanonicalText(line);
  RM_CHECK(again.ok() && again->CanonicalText() == line,
           "a model is another one once it was written");
  return true;
}

// Arguments, one a line.
bool TryFlags(std::string_view text) {
  FlagSet flags("fuzz", "Has a flag of each type.");
  bool boolean = false;
  int64_t number = 0;
  double real = 0;
  std::string word;
  absl::Duration duration;
  std::vector<std::string> words;
  std::string file;
  flags.Add({.name = "boolean", .help = "A bool."}, &boolean);
  flags.Add({.name = "number", .help = "A number.", .min = -5, .max = 1000},
            &number);
  flags.Add({.name = "real", .help = "A number."}, &real);
  flags.Add({.name = "word", .help = "A word.", .choices = {"a", "b"}}, &word);
  flags.Add({.name = "duration", .help = "A time.", .min = 0, .max = 100},
            &duration);
  flags.Add({.name = "words", .short_name = 'w', .help = "Words."}, &words);
  FlagSet& command = flags.AddCommand("command", "Takes an argument.");
  command.AddArgument("FILE", "A file.", /*is_required=*/false, &file);
  const std::vector<std::string> args =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  if (!flags.Parse(args).ok()) return false;
  RM_CHECK(number >= -5 && number <= 1000 && duration >= absl::ZeroDuration() &&
               duration <= absl::Seconds(100),
           "a flag is beyond its bounds");
  return true;
}

// The first byte says what the rest is. Messages about a command line or an
// environment cite it as it is: it is the user's own.
bool TryShortText(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view text = input.substr(1);
  switch (input.front()) {
    case 'a':
      return TryAddress(text);
    case 'p':
      return ParsePortRange(text).ok();
    case 'b':
      return ParseBytes(text).has_value() && ParseWholeNumber(text).has_value();
    case 'e':
      return ParsePredecessor(text).ok();
    case 'f':
      return TryFailPoints(text);
    case 'm':
      return TryModel(text);
    case 'c':
      return TryFlags(text);
    default:
      return false;
  }
}

std::vector<std::string> ShortTexts() {
  const ModelConfig model = {.kind = "cnn",
                             .settings = {{"filters", {8, 16}}, {"lr", {0.5}}}};
  return {"a10.0.0.7:29400",
          "a[fe80::1]:0",
          "anode-7.example:65535",
          "p29500-29599",
          "b512MiB",
          "e4711:0:9",
          "fjournal.commit=error@3;collective.send=hang",
          "m" + model.CanonicalText(),
          "c--boolean\n--number=7\n-w\nx\n--words=y\ncommand\nfile",
          "c--duration\n1.5s\n--word=a\n--real=1e-3\n--\n"};
}

std::vector<std::string> WireInputs() {
  std::vector<std::string> inputs;
  Random random(1);
  for (int kind = 0; kind < kWireKinds; ++kind) {
    const Bytes input = ValidInput(static_cast<WireKind>(kind), random);
    inputs.emplace_back(reinterpret_cast<const char*>(input.data()),
                        input.size());
  }
  return inputs;
}

bool TryWire(std::string_view input) {
  return TryWireInput(std::as_bytes(std::span(input)));
}

}  // namespace

std::vector<Parser> OtherParsers() {
  return {
      {"short_text",
       ShortTexts(),
       {"[",  "]",    ":",    "-", "=",      "@",       ";",   ",",
        "\n", "--",   "--no", "0", "s",      "ms",      "inf", "KiB",
        "%",  "\x7f", "\xFF", " ", "--help", "--words="},
       TryShortText},
      {"wire", WireInputs(), {}, TryWire},
  };
}

}  // namespace ringmaster::fuzz
