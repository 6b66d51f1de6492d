#include "server/coordinator/core/state/stage.h"

#include <algorithm>

namespace ringmaster::coordinator {
namespace {

struct NameOfStage {
  template <typename S>
  v1::JobState operator()(const S&) const {
    return S::kState;
  }
  v1::JobState operator()(const stage::Ended& ended) const {
    return ended.state;
  }
};

struct EarliestOf {
  template <typename S>
  MonotonicTime operator()(const S&) const {
    return kNever;
  }
  MonotonicTime operator()(const stage::Gathering& gathering) const {
    return std::min(gathering.gang_deadline, gathering.rest_deadline);
  }
  MonotonicTime operator()(const stage::Running& running) const {
    return std::min(running.growth_deadline, running.pause_deadline);
  }
  MonotonicTime operator()(const stage::Stopping& stopping) const {
    return stopping.deadline;
  }
  MonotonicTime operator()(const stage::Halting& halting) const {
    return halting.deadline;
  }
};

struct ExtendDeadlinesOf {
  absl::Duration delay;

  template <typename S>
  void operator()(S&) const {}
  void operator()(stage::Running& running) const {
    running.pause_deadline += delay;
  }
  void operator()(stage::Stopping& stopping) const {
    stopping.deadline += delay;
  }
  void operator()(stage::Halting& halting) const { halting.deadline += delay; }
};

struct ClearDeadlinesOf {
  template <typename S>
  void operator()(S&) const {}
  void operator()(stage::Gathering& gathering) const {
    gathering.gang_deadline = gathering.rest_deadline = kNever;
  }
  void operator()(stage::Running& running) const { running = {}; }
  void operator()(stage::Stopping& stopping) const { stopping = {}; }
  void operator()(stage::Halting& halting) const { halting.deadline = kNever; }
};

}  // namespace

v1::JobState StateOf(const Stage& stage) {
  return std::visit(NameOfStage(), stage);
}

MonotonicTime EarliestDeadline(const Stage& stage) {
  return std::visit(EarliestOf(), stage);
}

void ExtendDeadlines(Stage& stage, absl::Duration delay) {
  std::visit(ExtendDeadlinesOf{delay}, stage);
}

void ClearDeadlines(Stage& stage) { std::visit(ClearDeadlinesOf(), stage); }

}  // namespace ringmaster::coordinator
