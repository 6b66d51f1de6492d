#include "tests/fuzz/parser.h"

#include <iterator>

#include "common/status/check.h"
#include "google/protobuf/stubs/logging.h"

namespace ringmaster::fuzz {
namespace {

// A line of a log; enough for a path, a place and what was found and expected there.
constexpr size_t kMaxMessageBytes = 2000;

}  // namespace

void CheckMessage(const absl::Status& status) {
  const absl::string_view message = status.message();
  if (status.ok()) return;
  RM_CHECK(!message.empty(), "an error says nothing");
  RM_CHECK(message.size() <= kMaxMessageBytes, "an error's message is long");
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    RM_CHECK(byte >= 0x20 && byte != 0x7f,
             "an error's message has a control character");
  }
}

const std::vector<Parser>& Parsers() {
  static const auto* const parsers = [] {
    // It would write a line for each text that is not UTF-8.
    google::protobuf::SetLogHandler(nullptr);
    auto* const all = new std::vector<Parser>();
    for (auto* part : {MessageParsers, FileParsers, OtherParsers}) {
      std::vector<Parser> some = part();
      all->insert(all->end(), std::make_move_iterator(some.begin()),
                  std::make_move_iterator(some.end()));
    }
    return all;
  }();
  return *parsers;
}

}  // namespace ringmaster::fuzz
