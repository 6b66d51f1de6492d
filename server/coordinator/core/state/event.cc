#include "server/coordinator/core/state/event.h"

#include <array>

namespace ringmaster::coordinator {

std::string_view EventTypeName(size_t index) {
  static constexpr std::array<std::string_view, std::variant_size_v<EventBody>>
      kNames = {"hello",         "beat",     "prepared",   "halted",
                "suspicion",     "finished", "failed",     "leaving",
                "notice",        "probed",   "heard",      "stream_closed",
                "submit",        "cancel",   "change_job", "cordon",
                "set_queues",    "change",   "persisted",  "persist_failed",
                "journal_works", "flight",   "tick",       "shutdown"};
  return kNames[index];
}

std::string_view TypeOf(const EventBody& body) {
  return EventTypeName(body.index());
}

SessionId SessionOf(const EventBody& body) {
  return std::visit(
      [](const auto& what) -> SessionId {
        if constexpr (requires { what.session; }) {
          return what.session;
        } else {
          return 0;
        }
      },
      body);
}

}  // namespace ringmaster::coordinator
