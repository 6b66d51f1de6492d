#include "common/fail_point/fail_point.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/fail_point/environment.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"

namespace ringmaster {

struct Arming {
  FailPoint::Action action = FailPoint::Action::kOff;
  int64_t at_pass = 1;
  int64_t passes = 0;
  // Tells one arming of a name from the next, for threads that hang.
  int64_t serial = 0;
};

// The points and what is armed, by name.
class FailPointRegistry {
 public:
  // Never destroyed: points are passed until the process ends.
  static FailPointRegistry& Get() {
    static FailPointRegistry* const registry = new FailPointRegistry;
    return *registry;
  }

  void Register(FailPoint* point) {
    MutexLock lock(mutex_);
    points_.emplace(point->name_, point);
    point->is_armed_.store(armed_.contains(std::string_view(point->name_)),
                           std::memory_order_relaxed);
  }

  void Arm(std::string_view name, FailPoint::Action action, int64_t at_pass) {
    {
      MutexLock lock(mutex_);
      armed_[std::string(name)] = {action, at_pass, 0, ++last_serial_};
      MarkPoints(name, true);
    }
    changed_.NotifyAll();
  }

  void Disarm(std::string_view name) {
    {
      MutexLock lock(mutex_);
      if (const auto it = armed_.find(name); it != armed_.end()) {
        armed_.erase(it);
      }
      MarkPoints(name, false);
    }
    changed_.NotifyAll();
  }

  void DisarmAll() {
    {
      MutexLock lock(mutex_);
      armed_.clear();
      for (const auto& [name, point] : points_) {
        point->is_armed_.store(false, std::memory_order_relaxed);
      }
    }
    changed_.NotifyAll();
  }

  // Counts a pass of `name` and says what it has to do. Hangs inside.
  FailPoint::Action Pass(std::string_view name) {
    MutexLock lock(mutex_);
    const auto it = armed_.find(name);
    if (it == armed_.end()) return FailPoint::Action::kOff;
    if (++it->second.passes < it->second.at_pass)
      return FailPoint::Action::kOff;
    const FailPoint::Action action = it->second.action;
    if (action == FailPoint::Action::kHang) {
      HangWhileArmed(name, it->second.serial);
    }
    return action;
  }

  std::vector<std::string> Names() {
    MutexLock lock(mutex_);
    std::set<std::string> names;
    for (const auto& [name, point] : points_) names.insert(name);
    return {names.begin(), names.end()};
  }

  int64_t PassCount(std::string_view name) {
    MutexLock lock(mutex_);
    const auto it = armed_.find(name);
    return it == armed_.end() ? 0 : it->second.passes;
  }

  int HangingCount(std::string_view name) {
    MutexLock lock(mutex_);
    return static_cast<int>(hanging_.count(name));
  }

 private:
  void MarkPoints(std::string_view name, bool is_armed) REQUIRES(mutex_) {
    const auto [begin, end] = points_.equal_range(name);
    for (auto it = begin; it != end; ++it) {
      it->second->is_armed_.store(is_armed, std::memory_order_relaxed);
    }
  }

  void HangWhileArmed(std::string_view name, int64_t serial) REQUIRES(mutex_) {
    const auto self = hanging_.emplace(name);
    while (true) {
      const auto it = armed_.find(name);
      if (it == armed_.end() || it->second.serial != serial) break;
      changed_.Wait(mutex_);
    }
    hanging_.erase(self);
  }

  Mutex mutex_;
  CondVar changed_;
  std::multimap<std::string, FailPoint*, std::less<>> points_
      GUARDED_BY(mutex_);
  std::map<std::string, Arming, std::less<>> armed_ GUARDED_BY(mutex_);
  std::multiset<std::string, std::less<>> hanging_ GUARDED_BY(mutex_);
  int64_t last_serial_ GUARDED_BY(mutex_) = 0;
};

namespace {

struct ParsedArming {
  std::string name;
  FailPoint::Action action;
  int64_t at_pass = 1;
};

absl::StatusOr<ParsedArming> ParseArming(absl::string_view part) {
  const auto malformed = [part](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        kFailPointsVariable, ": \"", part, "\": ", why,
        "; write NAME=ACTION or NAME=ACTION@PASS with ACTION one of error, "
        "crash, hang, off"));
  };
  const std::pair<absl::string_view, absl::string_view> sides =
      absl::StrSplit(part, absl::MaxSplits('=', 1));
  if (sides.first.empty()) return malformed("no name");
  const std::pair<absl::string_view, absl::string_view> action_and_pass =
      absl::StrSplit(sides.second, absl::MaxSplits('@', 1));
  ParsedArming arming{.name = std::string(sides.first), .action = {}};
  const absl::string_view action = action_and_pass.first;
  if (action == "error") {
    arming.action = FailPoint::Action::kError;
  } else if (action == "crash") {
    arming.action = FailPoint::Action::kCrash;
  } else if (action == "hang") {
    arming.action = FailPoint::Action::kHang;
  } else if (action == "off") {
    arming.action = FailPoint::Action::kOff;
  } else {
    return malformed("unknown action");
  }
  if (absl::StrContains(sides.second, "@") &&
      (!absl::SimpleAtoi(action_and_pass.second, &arming.at_pass) ||
       arming.at_pass < 1)) {
    return malformed("the pass is not a whole number from 1");
  }
  return arming;
}

}  // namespace

FailPoint::FailPoint(const char* name) : name_(name) {
  FailPointRegistry::Get().Register(this);
}

absl::Status FailPoint::PassArmed() {
  switch (FailPointRegistry::Get().Pass(name_)) {
    case Action::kError:
      return absl::UnavailableError(absl::StrCat("fail point ", name_));
    case Action::kCrash:
      kill(getpid(), SIGKILL);
      _exit(137);  // Not reached: SIGKILL cannot be blocked.
    case Action::kHang:
    case Action::kOff:
      return absl::OkStatus();
  }
  return absl::InternalError("fail point with an unknown action");
}

void FailPoint::Arm(std::string_view name, Action action, int64_t at_pass) {
  FailPointRegistry::Get().Arm(name, action, at_pass);
}

void FailPoint::Disarm(std::string_view name) {
  FailPointRegistry::Get().Disarm(name);
}

void FailPoint::DisarmAll() { FailPointRegistry::Get().DisarmAll(); }

absl::Status FailPoint::ArmFromText(std::string_view text) {
  std::vector<ParsedArming> armings;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ';',
                      absl::SkipWhitespace())) {
    ASSIGN_OR_RETURN(ParsedArming arming,
                     ParseArming(absl::StripAsciiWhitespace(part)));
    armings.push_back(std::move(arming));
  }
  for (const ParsedArming& arming : armings) {
    Arm(arming.name, arming.action, arming.at_pass);
  }
  return absl::OkStatus();
}

absl::Status FailPoint::ArmFromEnvironment() {
  const char* const text = std::getenv(kFailPointsVariable);
  return text == nullptr ? absl::OkStatus() : ArmFromText(text);
}

std::vector<std::string> FailPoint::Names() {
  return FailPointRegistry::Get().Names();
}

int64_t FailPoint::PassCount(std::string_view name) {
  return FailPointRegistry::Get().PassCount(name);
}

int FailPoint::HangingCount(std::string_view name) {
  return FailPointRegistry::Get().HangingCount(name);
}

}  // namespace ringmaster
