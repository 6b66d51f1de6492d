#include "worker/agent/core/testing/scenario.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/protocol/enum_name.h"
#include "common/status/exit_code.h"
#include "worker/agent/core/agent_core.h"

namespace ringmaster::agent {
namespace {

std::string Position(const StepPosition& position) {
  return absl::StrCat(" applied=", position.applied_step,
                      " complete=", position.complete_step);
}

struct ActionWriter {
  std::string operator()(const OpenSession& a) const {
    return absl::StrCat(
        "open-session g=", a.generation,
        a.formed_by == 0 ? "" : absl::StrCat(" by=", a.formed_by),
        a.peer.empty() ? "" : absl::StrCat(" at=", a.peer));
  }
  std::string operator()(const CloseSession&) const { return "close-session"; }
  std::string operator()(const SendBeat& a) const {
    return absl::StrCat("send-beat g=", a.generation);
  }
  std::string operator()(const SendPrepared& a) const {
    return absl::StrCat("send-prepared g=", a.generation, " plan=", a.plan_hash,
                        " data=", a.data_fingerprint);
  }
  std::string operator()(const SendHalted& a) const {
    std::string text =
        absl::StrCat("send-halted g=", a.generation, Position(a.position));
    for (const HeldShard& held : a.shards) {
      absl::StrAppend(&text, " shard ", held.shard, "@", held.complete_step);
    }
    if (a.can_go_on) absl::StrAppend(&text, " can-go-on");
    return text;
  }
  std::string operator()(const SendSuspicion& a) const {
    return absl::StrCat("send-suspicion g=", a.generation,
                        " peer=", a.peer_rank, " step=", a.step,
                        a.is_unreached ? " unreached" : "",
                        a.holds_other_state ? " other-state" : "",
                        a.failure == v1::LINK_FAILURE_UNSPECIFIED
                            ? ""
                            : absl::StrCat(" ", EnumName(a.failure)),
                        " text=", a.detail);
  }
  std::string operator()(const SendFinished& a) const {
    return absl::StrCat("send-finished g=", a.generation, " step=", a.step,
                        " hash=", a.parameters_hash,
                        a.is_stopped ? " stopped" : "");
  }
  std::string operator()(const SendFailed& a) const {
    return absl::StrCat(
        "send-failed g=", a.generation, " step=", a.step,
        " exit=", static_cast<int>(a.exit_code), a.is_of_job ? " of-job" : "",
        a.was_preparing ? " preparing" : "", " text=", a.message);
  }
  std::string operator()(const SendLeaving& a) const {
    return absl::StrCat("send-leaving ", a.is_done ? "done" : "soon",
                        " step=", a.step);
  }
  std::string operator()(const SendTrace& a) const {
    const TraceRequested& request = a.request;
    return absl::StrCat("send-trace id=", request.request_id, " rank=", a.rank,
                        " steps=", request.first_step, "-", request.last_step);
  }
  std::string operator()(const SendProbed& a) const {
    return absl::StrCat("send-probed g=", a.probe.generation());
  }
  std::string operator()(const SendLog& a) const {
    return absl::StrCat("send-log id=", a.request.request_id,
                        " after=", a.request.after_sequence);
  }
  std::string operator()(const SendNotice& a) const {
    return absl::StrCat("send-notice g=", a.notice.generation(),
                        " step=", a.notice.step(),
                        " text=", a.notice.message());
  }
  std::string operator()(const PrepareTrainer& a) const {
    return absl::StrCat("prepare g=", a.generation);
  }
  std::string operator()(const RunTrainer& a) const {
    return absl::StrCat("run g=", a.generation);
  }
  std::string operator()(const AbortTrainer& a) const {
    return absl::StrCat("abort g=", a.generation);
  }
  std::string operator()(const RequestStop&) const { return "request-stop"; }
  std::string operator()(const RequestDrain&) const { return "request-drain"; }
  std::string operator()(const RequestLeave&) const { return "request-leave"; }
  std::string operator()(const RequestPause& a) const {
    return absl::StrCat("request-pause let-go=", a.is_let_go ? "yes" : "no",
                        " of=", a.let_go_count);
  }
  std::string operator()(const ReleaseTrainer&) const {
    return "release-trainer";
  }
  std::string operator()(const Log& a) const { return a.message; }
  std::string operator()(const Exit& a) const {
    return absl::StrCat("exit ", static_cast<int>(a.code),
                        a.is_hurried ? " hurried" : "");
  }
};

std::string ToString(std::string_view text) { return std::string(text); }

absl::string_view ToAbsl(std::string_view text) {
  return {text.data(), text.size()};
}

// The arguments of one line.
class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        plain_.push_back(word);
      } else {
        values_[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
  }
  // The K-th word without `=`; 0 is the event's name.
  std::string Plain(size_t k) const {
    return k < plain_.size() ? plain_[k] : "";
  }
  bool Has(const std::string& word) const {
    return std::find(plain_.begin(), plain_.end(), word) != plain_.end();
  }
  std::string Text(const std::string& key) const {
    const auto it = values_.find(key);
    return it == values_.end() ? "" : it->second;
  }
  int64_t Number(const std::string& key, int64_t otherwise = 0) const {
    const auto it = values_.find(key);
    return it == values_.end() ? otherwise : std::atoll(it->second.c_str());
  }
  absl::Duration Time(const std::string& key, absl::Duration otherwise) const {
    absl::Duration value;
    return absl::ParseDuration(Text(key), &value) ? value : otherwise;
  }

 private:
  std::vector<std::string> plain_;
  std::map<std::string, std::string> values_;
};

std::optional<absl::StatusCode> CodeOf(const std::string& name) {
  for (int code = 0; code <= 16; ++code) {
    const auto status_code = static_cast<absl::StatusCode>(code);
    if (absl::StatusCodeToString(status_code) == name) return status_code;
  }
  return std::nullopt;
}

std::optional<RunEnd> EndOf(const std::string& name) {
  static const std::map<std::string, RunEnd> kEnds = {
      {"finished", RunEnd::kFinished},
      {"stopped", RunEnd::kStopped},
      {"drained", RunEnd::kDrained},
      {"interrupted", RunEnd::kInterrupted},
      {"peer-failed", RunEnd::kPeerFailed},
      {"failed", RunEnd::kFailed}};
  const auto it = kEnds.find(name);
  if (it == kEnds.end()) return std::nullopt;
  return it->second;
}

StepPosition PositionOf(const Arguments& args) {
  const int64_t applied = args.Number("applied");
  return {applied, args.Number("complete", applied)};
}

// shard=0@40: it holds shard 0 as of step 40.
std::vector<HeldShard> ShardsOf(const Arguments& args) {
  if (args.Text("shard").empty()) return {};
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(args.Text("shard"), absl::MaxSplits('@', 1));
  const HeldShard held = {std::atoi(parts.first.c_str()),
                          std::atoll(parts.second.c_str())};
  return {held};
}

std::optional<Event> ParseTrainerEvent(const std::string& name,
                                       const Arguments& args) {
  const int64_t g = args.Number("g");
  if (name == "prepared") {
    return TrainerPrepared{g,
                           static_cast<uint64_t>(args.Number("plan")),
                           static_cast<uint64_t>(args.Number("data")),
                           "summary",
                           PositionOf(args),
                           ShardsOf(args),
                           args.Has("can-go-on")};
  }
  if (name == "advanced") return TrainerAdvanced{g};
  if (name == "notice") {
    TrainerNoticed event;
    event.notice.set_generation(g);
    event.notice.set_step(args.Number("step"));
    event.notice.set_message(args.Text("text"));
    return event;
  }
  absl::Status status(
      CodeOf(args.Text("code")).value_or(absl::StatusCode::kInternal),
      args.Text("text"));
  if (const int64_t exit = args.Number("exit", -1); exit >= 0)
    status = WithExitCode(std::move(status), static_cast<ExitCode>(exit));
  if (name == "prepare-failed") {
    return TrainerPrepareFailed{g, status, PositionOf(args)};
  }
  const auto end = EndOf(args.Plain(1));
  if (name != "ended" || !end) return std::nullopt;
  return TrainerEnded{g,
                      *end,
                      status,
                      static_cast<int>(args.Number("peer", -1)),
                      args.Has("unreached"),
                      args.Has("closed") ? v1::LINK_FAILURE_CLOSED
                                         : v1::LINK_FAILURE_UNSPECIFIED,
                      PositionOf(args),
                      static_cast<uint64_t>(args.Number("hash")),
                      ShardsOf(args),
                      args.Has("can-go-on"),
                      args.Has("other-state"),
                      args.Number("saved")};
}

std::optional<Event> ParseEvent(const Arguments& args) {
  const std::string name = args.Plain(0);
  const int64_t g = args.Number("g");
  if (name == "tick") return Tick{};
  if (name == "signal") return TerminateSignal{"SIGTERM"};
  if (name == "session-up") {
    return SessionUp{static_cast<uint64_t>(args.Number("life", 1)),
                     static_cast<int>(args.Number("protocol", 1)),
                     args.Time("beat", absl::Hours(24)),
                     absl::Seconds(1),
                     args.Time("state_wait", absl::ZeroDuration()),
                     args.Text("at")};
  }
  if (name == "session-down") {
    return SessionDown{
        CodeOf(args.Text("code")).value_or(absl::StatusCode::kUnavailable),
        args.Text("reason"), args.Text("text"), 1.0, args.Text("at")};
  }
  if (name == "assign") {
    return AssignmentReceived{g,
                              args.Text("job"),
                              static_cast<int>(args.Number("rank")),
                              static_cast<int>(args.Number("world", 1)),
                              args.Number("resume"),
                              nullptr,
                              args.Number("rehearsal") != 0,
                              static_cast<uint64_t>(args.Number("by"))};
  }
  if (name == "start") return StartReceived{g};
  if (name == "halt") return HaltReceived{g, args.Text("text")};
  if (name == "pause") {
    return PauseReceived{g, args.Text("text"), args.Number("leaves") != 0,
                         static_cast<int>(args.Number("leavers"))};
  }
  if (name == "stop") return StopReceived{g, args.Text("text")};
  if (name == "advice") return LeaveAdviceReceived{args.Text("text")};
  if (name == "release") {
    const int64_t code = args.Number("code", -1);
    return ReleaseReceived{
        g, args.Text("text"),
        code < 0 ? std::nullopt
                 : std::make_optional(static_cast<ExitCode>(code))};
  }
  if (name == "trace") {
    return TraceRequested{args.Number("id"), args.Number("first"),
                          args.Number("last")};
  }
  if (name == "log") {
    return LogRequested{.request_id = args.Number("id"),
                        .filter = {},
                        .after_sequence = args.Number("after")};
  }
  if (name == "probe") {
    ProbeRequested event;
    event.probe.set_generation(g);
    return event;
  }
  return ParseTrainerEvent(name, args);
}

class Runner {
 public:
  explicit Runner(std::string_view file) : file_(file) {}

  void RunLine(int number, std::string_view line) {
    number_ = number;
    const std::vector<std::string> halves =
        absl::StrSplit(ToAbsl(line), absl::MaxSplits("=>", 1));
    const std::vector<std::string> words =
        absl::StrSplit(halves[0], ' ', absl::SkipEmpty());
    if (words.empty()) return;
    if (words[0] == "scenario") {
      ++result_.scenario_count;
      config_ = AgentConfig{};
      config_.coordinator = "head:7000";
      config_.name = "w0";
      core_.reset();
      return;
    }
    const Arguments args(words);
    if (words[0] == "config") {
      Configure(args);
      return;
    }
    if (!core_) core_ = std::make_unique<AgentCore>(config_, now_);
    if (words[0] == "says") {
      CheckSays(absl::StrJoin(words.begin() + 1, words.end(), " "));
    } else if (words[0] == "state") {
      CheckState(args.Plain(1));
    } else if (halves.size() != 2) {
      Fail("has no =>");
    } else {
      CheckActions(args, halves[1]);
    }
  }

  ScenarioResult result() && { return std::move(result_); }

 private:
  void Fail(const std::string& what) {
    result_.failures.push_back(absl::StrCat(file_, ":", number_, ": ", what));
  }

  void Configure(const Arguments& args) {
    if (core_) Fail("config comes before the first event");
    config_.coordinator_timeout =
        args.Time("coordinator_timeout", config_.coordinator_timeout);
    config_.drain_timeout = args.Time("drain_timeout", config_.drain_timeout);
    config_.abort_timeout = args.Time("abort_timeout", config_.abort_timeout);
    config_.answer_timeout =
        args.Time("answer_timeout", config_.answer_timeout);
    config_.name_wait = args.Time("name_wait", config_.name_wait);
    config_.max_jobs = static_cast<int>(args.Number("max_jobs"));
  }

  void Give(const Event& event) {
    const std::string name = ToString(EventName(event));
    result_.covered.emplace(ToString(StateName(core_->state())), name);
    if (core_->is_leaving() && core_->state() != AgentState::kExited) {
      result_.covered.emplace("leaving", name);
    }
    for (const Action& action : core_->Handle(event, now_)) {
      if (const auto* log = std::get_if<Log>(&action)) {
        said_.push_back(log->message);
        continue;
      }
      if (const auto* exit = std::get_if<Exit>(&action)) {
        said_.push_back(exit->message);
      }
      done_.push_back(ActionText(action));
    }
  }

  void Advance(absl::Duration duration) {
    const MonotonicTime end = now_ + duration;
    int ticks = 0;
    while (core_->NextDeadline() <= end) {
      if (++ticks > 1000) {
        Fail("does not come to rest: a deadline stays in the past");
        return;
      }
      now_ = std::max(now_, core_->NextDeadline());
      Give(Tick{});
    }
    now_ = end;
  }

  void CheckActions(const Arguments& args, const std::string& expected) {
    said_.clear();
    done_.clear();
    if (args.Plain(0) == "advance") {
      absl::Duration duration;
      if (!absl::ParseDuration(args.Plain(1), &duration)) {
        Fail("advance takes a duration");
      }
      Advance(duration);
    } else if (const auto event = ParseEvent(args)) {
      Give(*event);
    } else {
      Fail(absl::StrCat("unknown event ", args.Plain(0)));
      return;
    }
    std::vector<std::string> wanted;
    for (absl::string_view part : absl::StrSplit(expected, ';')) {
      part = absl::StripAsciiWhitespace(part);
      if (!part.empty()) wanted.emplace_back(part);
    }
    if (wanted != done_) {
      Fail(absl::StrCat("expected: ", absl::StrJoin(wanted, " ; "),
                        "\n    got: ", absl::StrJoin(done_, " ; ")));
    }
  }

  void CheckSays(const std::string& text) {
    const std::string said = absl::StrJoin(said_, " | ");
    if (text == "nothing" ? !said.empty()
                          : said.find(text) == std::string::npos) {
      Fail(absl::StrCat("expected to say: ", text, "\n    said: ", said));
    }
  }

  void CheckState(const std::string& expected) {
    if (StateName(core_->state()) != expected) {
      Fail(absl::StrCat("state is ", ToString(StateName(core_->state()))));
    }
  }

  const std::string file_;
  int number_ = 0;
  ScenarioResult result_;
  AgentConfig config_;
  std::unique_ptr<AgentCore> core_;
  MonotonicTime now_ = MonotonicTime::FromNanos(1'000'000'000);
  std::vector<std::string> done_;
  std::vector<std::string> said_;
};

}  // namespace

std::string ActionText(const Action& action) {
  return std::visit(ActionWriter{}, action);
}

ScenarioResult RunScenarios(std::string_view file, std::string_view text) {
  Runner runner(file);
  int number = 0;
  int first = 0;  // of a line with its continuations
  std::string whole;
  for (absl::string_view line : absl::StrSplit(ToAbsl(text), '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (!line.empty() && line[0] == ' ') {
      absl::StrAppend(&whole, line);
      continue;
    }
    runner.RunLine(first, whole);
    whole = std::string(line);
    first = number;
  }
  runner.RunLine(first, whole);
  return std::move(runner).result();
}

}  // namespace ringmaster::agent
