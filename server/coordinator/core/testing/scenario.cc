#include "server/coordinator/core/testing/scenario.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/protocol/enum_name.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/state/turn.h"
#include "server/coordinator/core/testing/action_text.h"

namespace ringmaster::coordinator {

struct Scenario::Words {
  std::string verb;
  std::vector<std::string> names;
  std::map<std::string, std::string> options;

  static Words Parse(const std::string& text);

  bool Has(const std::string& key) const { return options.contains(key); }
  std::string Text(const std::string& key, const std::string& absent) const {
    const auto it = options.find(key);
    return it == options.end() ? absent : it->second;
  }
  int64_t Number(const std::string& key, int64_t absent) const {
    int64_t value = absent;
    if (Has(key) && !absl::SimpleAtoi(Text(key, ""), &value)) return -999;
    return value;
  }
  absl::Duration Time(const std::string& key, absl::Duration absent) const {
    absl::Duration value = absent;
    if (Has(key)) absl::ParseDuration(Text(key, ""), &value);
    return value;
  }
};

namespace {

// The next word of `text` from `at` on; quotes keep spaces together.
std::string NextWord(const std::string& text, size_t& at) {
  while (at < text.size() && text[at] == ' ') ++at;
  std::string word;
  for (bool is_quoted = false; at < text.size(); ++at) {
    if (text[at] == '"') {
      is_quoted = !is_quoted;
    } else if (text[at] == ' ' && !is_quoted) {
      break;
    } else {
      word.push_back(text[at]);
    }
  }
  return word;
}

v1::Phase PhaseFrom(const std::string& name) {
  for (int i = 0; i <= v1::Phase_MAX; ++i) {
    if (EnumName(static_cast<v1::Phase>(i)) == name)
      return static_cast<v1::Phase>(i);
  }
  return v1::PHASE_UNSPECIFIED;
}

v1::LinkFailure FailureFrom(const std::string& how) {
  if (how == "no_answer") return v1::LINK_FAILURE_NO_ANSWER;
  if (how == "closed") return v1::LINK_FAILURE_CLOSED;
  if (how == "refused") return v1::LINK_FAILURE_REFUSED;
  return v1::LINK_FAILURE_UNSPECIFIED;
}

Situation SituationOfJob(const Job* job) {
  if (job == nullptr) return "none";
  if (job->ending.has_value()) return "ending";
  if (IsForming(*job)) return "forming";
  if (job->reattach_deadline != MonotonicTime::InfiniteFuture()) {
    return "reattaching";
  }
  return EnumName(job->state());
}

Situation SituationOfWorker(const State& state, const Worker* worker) {
  if (worker == nullptr) return "none";
  if (state.rebuildings.contains(worker->job_id)) return "rebuilding";
  if (worker->job_id.empty()) return EnumName(worker->state);
  return SituationOfJob(state.FindJob(worker->job_id));
}

template <typename Words>
Sharding ShardingOf(const Words& words) {
  Sharding sharding;
  sharding.servers = static_cast<int>(words.Number("servers", 0));
  sharding.shards = static_cast<int>(words.Number("shards", sharding.servers));
  sharding.lanes = static_cast<int>(words.Number("lanes", 1));
  sharding.replicas = static_cast<int>(words.Number("replicas", 0));
  sharding.is_lockstep = words.Text("consistency", "bsp") == "bsp";
  return sharding;
}

// "0@40,2@41": a list of two numbers each, of which a wrong one is -999.
template <typename Item, typename First, typename Second>
std::vector<Item> ItemsFrom(const std::string& text, char separator,
                            First Item::*first, Second Item::*second) {
  std::vector<Item> items;
  for (const absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> numbers =
        absl::StrSplit(part, absl::MaxSplits(separator, 1));
    Item& item = items.emplace_back();
    if (!absl::SimpleAtoi(numbers.first, &(item.*first))) item.*first = -999;
    if (!absl::SimpleAtoi(numbers.second, &(item.*second))) item.*second = -999;
  }
  return items;
}

template <typename Words>
Caller CallerOf(const Words& words) {
  Caller caller;
  if (!words.Has("user")) return caller;
  caller.name = words.Text("user", "");
  caller.roles = words.Text("role", "operator");
  caller.address = words.Text("from", "10.0.0.9");
  caller.owns_all = caller.roles != "submitter";
  return caller;
}

// "gpu:h100,zone:a".
Labels LabelsOf(const std::string& text) {
  Labels labels;
  for (const absl::string_view entry :
       absl::StrSplit(text, ',', absl::SkipEmpty())) {
    labels.insert(absl::StrSplit(entry, absl::MaxSplits(':', 1)));
  }
  return labels;
}

// "research:4:8:2,default:0": each with its quota, and perhaps its most workers, weight,
// jobs of a submitter and submitters ("alice+bob"); empty ones are absent.
template <typename Words>
v1::QueueFile QueuesOf(const Words& words) {
  v1::QueueFile file;
  for (const absl::string_view entry :
       absl::StrSplit(words.Text("are", ""), ',', absl::SkipEmpty())) {
    std::vector<std::string> parts = absl::StrSplit(entry, ':');
    parts.resize(6);
    v1::QueueSpec& queue = *file.add_queues();
    queue.set_name(parts[0]);
    const auto number = [](const std::string& text) {
      int value = 0;
      return absl::SimpleAtoi(text, &value) ? value : 0;
    };
    queue.set_workers(number(parts[1]));
    if (!parts[2].empty()) queue.set_most_workers(number(parts[2]));
    if (!parts[3].empty()) queue.set_weight(number(parts[3]));
    if (!parts[4].empty()) queue.set_jobs_per_submitter(number(parts[4]));
    for (const absl::string_view name :
         absl::StrSplit(parts[5], '+', absl::SkipEmpty())) {
      queue.add_submitters(std::string(name));
    }
  }
  if (words.Has("half_life")) {
    *file.mutable_half_life() =
        ToProto(words.Time("half_life", absl::Hours(24)));
  }
  return file;
}

std::string AuditText(const State& state) {
  std::string text;
  for (const AuditedRecord& entry : state.audit) {
    absl::StrAppend(
        &text, entry.action, " ", entry.object, " by ", entry.caller.name,
        entry.request_id.empty() ? "" : ", request ", entry.request_id, "\n");
  }
  return text;
}

// The job that a worker reports.
template <typename Words>
std::optional<HeldJob> HeldJobOf(const Words& words) {
  if (!words.Has("job")) return std::nullopt;
  HeldJob held;
  held.job_id = words.Text("job", "");
  held.name =
      words.Text("of_name", held.job_id.substr(0, held.job_id.rfind('-')));
  held.spec = words.Text("spec", "spec of " + held.name);
  held.rank = static_cast<int>(words.Number("rank", 0));
  held.world_size = static_cast<int>(words.Number("of", 1));
  held.min_workers = static_cast<int>(words.Number("min", 1));
  held.max_workers = static_cast<int>(words.Number("max", held.world_size));
  held.settle = absl::Seconds(1);
  held.total_steps = 100;
  held.sharding = ShardingOf(words);
  held.servers = static_cast<int>(words.Number("of_servers", 0));
  held.resume_step = words.Number("after", 0);
  held.placements =
      ItemsFrom(words.Text("placed", ""), '/', &ShardPlacement::primary_rank,
                &ShardPlacement::backup_rank);
  return held;
}

// Most stories are about members that are lost because they have ended.
Config ScenarioConfig(absl::Duration failure_budget) {
  Config config = Config::FromFailureBudget(failure_budget);
  config.state_wait = absl::ZeroDuration();
  return config;
}

}  // namespace

Scenario::Words Scenario::Words::Parse(const std::string& text) {
  Words words;
  size_t at = 0;
  words.verb = NextWord(text, at);
  while (at < text.size()) {
    const std::string word = NextWord(text, at);
    const size_t equals = word.find('=');
    if (word.empty()) continue;
    if (equals == std::string::npos) {
      words.names.push_back(word);
    } else {
      words.options[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return words;
}

Scenario::Scenario()
    : config_(ScenarioConfig(absl::Seconds(2))),
      core_(config_, /*incarnation=*/1),
      now_(MonotonicTime::FromNanos(1'000'000'000)) {}

std::string Scenario::Run(const std::string& command) {
  return Dispatch(Words::Parse(command));
}

std::string Scenario::Dispatch(const Words& words) {
  const std::string& verb = words.verb;
  const std::string name = words.names.empty() ? "" : words.names.front();
  if (verb == "config") return Configure(words);
  if (verb == "join") return Hello(words, /*is_new_life=*/true);
  if (verb == "hello") return Hello(words, /*is_new_life=*/false);
  if (verb == "submit") return Submit(words);
  if (verb == "journal") return AnswerJournal(words);
  if (verb == "restart") return Restart();
  if (verb == "show") return ToText(core_.state());
  if (verb == "tick") return Feed(Tick{});
  if (verb == "shutdown") return Feed(ShutdownStarted{});
  if (verb == "cancel") {
    return Feed(CancelRequested{++last_request_, name,
                                words.Text("reason", "enough"),
                                CallerOf(words)});
  }
  if (verb == "priority" || verb == "suspend" || verb == "resume" ||
      verb == "scale" || verb == "move") {
    ChangeRequested change;
    change.request = ++last_request_;
    change.job = name;
    change.reason = words.Text("reason", "");
    change.caller = CallerOf(words);
    if (verb == "priority") {
      change.priority = static_cast<int>(words.Number("to", 0));
    } else if (verb == "move") {
      change.queue = words.Text("to", std::string(kDefaultQueue));
    } else if (verb == "scale") {
      if (words.Has("min"))
        change.min_workers = static_cast<int>(words.Number("min", 0));
      if (words.Has("max"))
        change.max_workers = static_cast<int>(words.Number("max", 0));
    } else {
      change.is_suspended = verb == "suspend";
    }
    return Feed(std::move(change));
  }
  if (verb == "cordon" || verb == "drain" || verb == "uncordon") {
    return Feed(CordonRequested{++last_request_, name,
                                /*is_lifted=*/verb == "uncordon",
                                /*drains=*/verb == "drain",
                                words.Text("reason", "upkeep"), CallerOf(words),
                                words.Time("by", absl::InfiniteDuration())});
  }
  if (verb == "queues") {
    return Feed(QueuesRequested{.request = ++last_request_,
                                .file = QueuesOf(words),
                                .caller = CallerOf(words),
                                .is_from_file = words.Has("from_file")});
  }
  if (verb == "change") {
    return Feed(ChangeMade{{.caller = CallerOf(words),
                            .action = words.Text("action", "access"),
                            .object = name}});
  }
  if (verb == "gathered") {
    FlightGathered gathered{.job_id = name};
    gathered.incident = static_cast<int>(words.Number("incident", 1));
    v1::HoldUp& hold_up = gathered.hold_ups.emplace_back();
    hold_up.set_rank(static_cast<int32_t>(words.Number("rank", 0)));
    hold_up.set_summary(absl::StrCat("rank ", hold_up.rank(), " was late"));
    return Feed(std::move(gathered));
  }
  if (verb == "audit") return AuditText(core_.state());
  if (verb == "events") {
    shows_all_events_ = name == "all";
    return "";
  }
  if (verb == "advance" || verb == "stall") {
    absl::Duration duration;
    if (!absl::ParseDuration(name, &duration)) return "error: what duration?\n";
    if (verb == "advance") return Advance(duration);
    now_ += duration;
    return "";
  }
  return Say(words);
}

std::string Scenario::Configure(const Words& words) {
  const Coverage coverage = std::move(coverage_);
  *this = Scenario();
  coverage_ = coverage;
  config_ = ScenarioConfig(words.Time("failure_budget", absl::Seconds(2)));
  config_.progress_cap = words.Time("progress_cap", config_.progress_cap);
  config_.stop_budget = words.Time("stop_budget", config_.stop_budget);
  config_.state_wait = words.Time("state_wait", config_.state_wait);
  config_.overtake_time = words.Time("overtake_time", config_.overtake_time);
  config_.join_settle = words.Time("join_settle", config_.join_settle);
  config_.max_rollbacks =
      static_cast<int>(words.Number("max_rollbacks", config_.max_rollbacks));
  config_.quarantine_faults = static_cast<int>(
      words.Number("quarantine_faults", config_.quarantine_faults));
  config_.max_ended_jobs =
      static_cast<int>(words.Number("max_ended_jobs", config_.max_ended_jobs));
  config_.takes_over = words.Has("takes_over");
  config_.queues_file = words.Text("queues_file", "");
  config_.requires_encryption = words.Has("encrypts");
  core_ = CoordinatorCore(config_, coordinator_incarnation_);
  const absl::Status status = config_.Validate();
  return status.ok() ? "" : absl::StrCat("error: ", status.message(), "\n");
}

std::string Scenario::Hello(const Words& words, bool is_new_life) {
  std::string out;
  for (const std::string& name : words.names) {
    Process& process = processes_[name];
    if (is_new_life) {
      process = Process();
      process.incarnation = ++last_incarnation_;
      process.host = words.Text("host", "h-" + name);
      process.container = words.Text("container", "");
      process.pid = 100 + static_cast<int64_t>(last_incarnation_);
      process.role = words.Text("role", "") == "ps" ? v1::ROLE_PARAMETER_SERVER
                                                    : v1::ROLE_WORKER;
      process.can_rehearse = words.Has("rehearses");
      process.can_probe = words.Has("probes");
      process.records = words.Has("records");
      process.runs_commands = words.Text("commands", "yes") == "yes";
      process.labels = LabelsOf(words.Text("labels", ""));
      process.memory_bytes = words.Number("memory", 0);
    }
    if (words.Text("session", "new") != "old") {
      process.session = ++last_session_;
    }
    session_names_[process.session] = name;
    HelloReceived hello;
    hello.session = process.session;
    hello.name = words.Text("name", name);
    hello.incarnation = static_cast<uint64_t>(
        words.Number("incarnation", static_cast<int64_t>(process.incarnation)));
    hello.role = process.role;
    hello.protocol_min = static_cast<int>(words.Number("protocol", 1));
    hello.protocol_max = static_cast<int>(words.Number(
        "protocol_max", words.Number("protocol", kNewestProtocol)));
    hello.host = hello.host_key = process.host;
    hello.container = process.container;
    hello.pid = process.pid;
    hello.data_address = process.host + ":9000";
    hello.version = "1.0";
    hello.generation = words.Number("generation", process.generation);
    // Whoever is told of another generation has it from nobody known.
    hello.formed_by = static_cast<uint64_t>(words.Number(
        "by",
        words.Has("generation") ? 0 : static_cast<int64_t>(process.formed_by)));
    hello.attempt = static_cast<uint64_t>(words.Number("attempt", 0));
    if (is_new_life) process.resume_key = words.Text("key", "");
    hello.resume_key_hash = words.Text("key", process.resume_key);
    hello.caller = CallerOf(words);
    hello.applied_step = words.Number("step", 0);
    hello.held_job = HeldJobOf(words);
    hello.can_rehearse = process.can_rehearse;
    hello.can_probe = process.can_probe;
    hello.records_collectives = process.records;
    hello.runs_commands = process.runs_commands;
    hello.labels = process.labels;
    hello.memory_bytes = process.memory_bytes;
    hello.requires_encryption = words.Has("encrypts");
    if (words.Has("latency_us")) {
      hello.costs = MachineCosts();
      hello.costs->shared_memory.latency =
          1e-6 * static_cast<double>(words.Number("latency_us", 1));
      hello.costs->cores = static_cast<int>(words.Number("cores", 16));
    }
    out += Feed(hello);
  }
  return out;
}

namespace {

// "0,2": the ranks that were reached, or were not.
template <typename Words>
void AddResults(const std::string& ranks, bool is_reached, const Words& words,
                v1::Probed& probed) {
  for (const absl::string_view rank :
       absl::StrSplit(ranks, ',', absl::SkipEmpty())) {
    v1::ProbeResult& result = *probed.add_results();
    int32_t number = -1;
    if (absl::SimpleAtoi(rank, &number)) result.set_peer_rank(number);
    result.set_reached(is_reached);
    if (is_reached) continue;
    result.set_failure(FailureFrom(words.Text("how", "no_answer")));
    result.set_detail(absl::StrCat("cannot connect to rank ", number));
  }
}

// The event that `words` describe, from a worker's `session`. `last_step`: the
// job's.
template <typename Words>
std::optional<Event> WorkerEvent(const Words& words, SessionId session,
                                 int64_t gen, int64_t last_step) {
  const std::string& verb = words.verb;
  if (verb == "beat") {
    BeatReceived beat{session,
                      gen,
                      words.Number("step", 0),
                      PhaseFrom(words.Text("phase", "STEP")),
                      words.Number("seq", 0),
                      static_cast<int>(words.Number("wait", -1)),
                      words.Number("disk", 0),
                      {}};
    beat.figures.set_step(
        words.Has("loss") || words.Has("step_duration") ? beat.step : 0);
    beat.figures.set_checkpoint_step(words.Number("saved", 0));
    beat.figures.set_loss(static_cast<double>(words.Number("loss", 0)));
    *beat.figures.mutable_step_duration() =
        ToProto(words.Time("step_duration", absl::ZeroDuration()));
    return beat;
  }
  if (verb == "prepared") {
    return PreparedReceived{session, gen,
                            static_cast<uint64_t>(words.Number("plan", 1)),
                            static_cast<uint64_t>(words.Number("data", 1)),
                            words.Text("summary", "same")};
  }
  if (verb == "halted") {
    const int64_t applied = words.Number("applied", 0);
    return HaltedReceived{
        session,
        gen,
        applied,
        words.Number("complete", applied),
        ItemsFrom(words.Text("shards", ""), '@', &HeldShard::shard,
                  &HeldShard::complete_step),
        words.Text("can_go_on", "") == "yes"};
  }
  if (verb == "suspect") {
    return SuspicionReceived{
        session,
        gen,
        static_cast<int>(words.Number("peer", 0)),
        words.Text("detail", "connection reset"),
        words.Number("step", 0),
        0,
        words.Has("unreached")
            ? std::optional(words.Text("unreached", "") == "yes")
            : std::nullopt,
        words.Text("other_state", "") == "yes",
        FailureFrom(words.Text("how", ""))};
  }
  if (verb == "finished") {
    return FinishedReceived{
        session,
        gen,
        words.Number("step", words.Has("stopped") ? 0 : last_step),
        static_cast<uint64_t>(words.Number("hash", 1)),
        words.Has("stopped"),
        {}};
  }
  if (verb == "failed") {
    return FailedReceived{session,
                          gen,
                          words.Number("step", 0),
                          static_cast<int>(words.Number("exit", 1)),
                          words.Text("message", "out of memory"),
                          words.Has("of_job"),
                          words.Has("preparing")};
  }
  if (verb == "leaving") {
    return LeavingReceived{session, words.Text("reason", "SIGTERM"),
                           words.Has("done"), words.Number("step", 0),
                           words.Time("patience", absl::ZeroDuration())};
  }
  if (verb == "notice") {
    NoticeReceived event{session, {}};
    v1::Notice& notice = event.notice;
    notice.set_generation(gen);
    notice.set_snapshot_generation(words.Number("snapshot", 0));
    notice.set_step(words.Number("step", 0));
    notice.set_kind(static_cast<v1::NoticeKind>(words.Number("kind", 1)));
    notice.set_message(words.Text("message", ""));
    *notice.mutable_duration() =
        ToProto(words.Time("duration", absl::ZeroDuration()));
    notice.mutable_sample()->set_step(notice.step());
    notice.mutable_sample()->set_prompt(words.Text("prompt", "The"));
    notice.mutable_sample()->set_text(words.Text("text", " sea"));
    return event;
  }
  if (verb == "probed") {
    ProbedReceived event{session, {}};
    event.probed.set_generation(gen);
    AddResults(words.Text("reached", ""), /*is_reached=*/true, words,
               event.probed);
    AddResults(words.Text("unreached", ""), /*is_reached=*/false, words,
               event.probed);
    return event;
  }
  if (verb == "heard") {
    HeardFrom event{session};
    if (!words.Has("awaited") && !words.Has("step")) return event;
    v1::RankTrace trace;
    trace.set_generation(gen);
    v1::TraceSpan& span = *trace.add_spans();
    span.set_step(words.Number("step", 0));
    span.set_awaited_rank(static_cast<int32_t>(words.Number("awaited", 0)));
    event.collectives = std::make_shared<const v1::RankTrace>(std::move(trace));
    return event;
  }
  if (verb == "break") {
    return StreamClosed{session, words.Text("detail", "reset by peer"),
                        words.Has("violation")};
  }
  return std::nullopt;
}

}  // namespace

std::string Scenario::Say(const Words& words) {
  if (words.names.empty()) return "error: who says that?\n";
  std::string out;
  for (const std::string& name : words.names) {
    const auto known = processes_.find(name);
    if (known == processes_.end())
      return absl::StrCat("error: nobody is called ", name, "\n");
    const Process& process = known->second;
    const Worker* const worker = core_.state().FindSession(process.session);
    const Job* const job =
        worker == nullptr ? nullptr : core_.state().JobOf(*worker);
    std::optional<Event> event = WorkerEvent(
        words, process.session, words.Number("gen", process.generation),
        job == nullptr ? 0 : job->total_steps);
    if (!event.has_value()) return "error: unknown command\n";
    if (auto* const probed = std::get_if<ProbedReceived>(&event->body)) {
      probed->probed.set_number(
          static_cast<uint32_t>(words.Number("number", process.probe)));
    }
    out += Feed(*event);
  }
  return out;
}

std::string Scenario::Submit(const Words& words) {
  SubmitRequested submit;
  submit.request = ++last_request_;
  submit.name = words.names.empty() ? "j" : words.names.front();
  submit.spec = "spec of " + submit.name;
  submit.min_workers = static_cast<int>(words.Number("min", 1));
  submit.max_workers =
      static_cast<int>(words.Number("max", submit.min_workers));
  submit.scale_limit = static_cast<int>(words.Number("limit", 4096));
  submit.settle = words.Time("settle", absl::Seconds(1));
  submit.total_steps = words.Number("steps", 100);
  submit.is_benchmark = words.Text("benchmark", "no") == "yes";
  submit.runs_commands = words.Text("commands", "no") == "yes";
  submit.needs = {.labels = LabelsOf(words.Text("require", "")),
                  .one_per_host = words.Text("spread", "none") == "host",
                  .memory_bytes = words.Number("memory", 0)};
  submit.keeps_checkpoints = words.Text("checkpoints", "no") != "no";
  submit.can_go_on_later = words.Text("checkpoints", "no") == "yes" ||
                           words.Text("requeue", "no") == "yes";
  submit.fails_on_write_error = words.Text("on_error", "continue") == "fail";
  submit.can_end_early = words.Text("early_stop", "no") == "yes";
  submit.sharding = ShardingOf(words);
  submit.priority = static_cast<int>(words.Number("priority", 0));
  submit.queue = words.Text("queue", std::string(kDefaultQueue));
  submit.request_id = words.Text("request_id", "");
  submit.caller = CallerOf(words);
  submit.owner = submit.caller.name;
  return Feed(submit);
}

std::string Scenario::AnswerJournal(const Words& words) {
  const std::string what = words.names.empty() ? "" : words.names.front();
  if (what == "works") return Feed(JournalWorks{});
  if (what == "copy") journal_copy_ = journal_;
  if (what == "restore") journal_ = journal_copy_;
  if (what == "remove") journal_.clear();
  if (what == "copy" || what == "restore" || what == "remove") return "";
  if (what == "auto" || what == "hold") {
    answers_at_once_ = what == "auto";
    return "";
  }
  const auto count = static_cast<size_t>(words.Number("only", 1'000'000));
  return Answer(what == "ok", words.Text("why", "disk full"), count);
}

std::string Scenario::Answer(bool is_ok, const std::string& why, size_t count) {
  std::string out;
  const auto end = unanswered_.begin() + static_cast<std::ptrdiff_t>(std::min(
                                             count, unanswered_.size()));
  const std::vector<Persist> answered(unanswered_.begin(), end);
  unanswered_.erase(unanswered_.begin(), end);
  for (const Persist& persist : answered) {
    if (!is_ok) {
      out += Feed(PersistFailed{persist.token, why});
      continue;
    }
    journal_.push_back(persist.record);
    out += Feed(Persisted{persist.token});
  }
  return out;
}

std::string Scenario::Advance(absl::Duration duration) {
  std::string out;
  const MonotonicTime end = now_ + duration;
  while (core_.NextDeadline() <= end) {
    now_ = std::max(now_, core_.NextDeadline());
    out += Feed(Tick{});
  }
  now_ = end;
  return out + Feed(Tick{});
}

std::string Scenario::Restart() {
  absl::StatusOr<CoordinatorCore> core =
      CoordinatorCore::Recover(config_, journal_, ++coordinator_incarnation_);
  if (!core.ok()) {
    return absl::StrCat("error: ", core.status().message(), "\n");
  }
  core_ = *std::move(core);
  unanswered_.clear();
  for (auto& [name, process] : processes_) process.session = 0;
  return Feed(Tick{});
}

std::string Scenario::Feed(Event event) {
  event.time = absl::UnixEpoch() + (now_ - MonotonicTime());
  coverage_.emplace(SituationOf(event.body), TypeOf(event.body));
  std::string out;
  for (const Action& action : core_.Step(event, now_)) out += Perform(action);
  // Answers come after all actions, as from a thread of its own.
  if (answers_at_once_) out += Answer(true, "", unanswered_.size());
  return out;
}

std::string Scenario::Perform(const Action& action) {
  if (const auto* const assignment = std::get_if<SendAssignment>(&action)) {
    Process& process = processes_[session_names_[assignment->session]];
    process.generation = assignment->generation;
    process.formed_by = assignment->formed_by;
  } else if (const auto* const release = std::get_if<SendRelease>(&action)) {
    processes_[session_names_[release->session]].generation = 0;
  } else if (const auto* const probe = std::get_if<SendProbe>(&action)) {
    processes_[session_names_[probe->session]].probe = probe->probe.number();
  } else if (const auto* const persist = std::get_if<Persist>(&action)) {
    unanswered_.push_back(*persist);
  } else if (const auto* const emitted = std::get_if<EmitEvent>(&action)) {
    if (emitted->event.severity() == v1::EVENT_SEVERITY_INFO &&
        !shows_all_events_) {
      return "";
    }
  }
  return ToText(action, [this](SessionId s) { return NameOfSession(s); }) +
         "\n";
}

std::string Scenario::NameOfSession(SessionId session) const {
  const auto it = session_names_.find(session);
  if (it == session_names_.end()) return "nobody";
  const auto process = processes_.find(it->second);
  return process->second.session == session ? it->second
                                            : it->second + "(old stream)";
}

Situation Scenario::SituationOf(const EventBody& body) const {
  const State& state = core_.state();
  if (const auto* const cancel = std::get_if<CancelRequested>(&body)) {
    return SituationOfJob(state.LookUpJob(cancel->job).value_or(nullptr));
  }
  if (const auto* const change = std::get_if<ChangeRequested>(&body)) {
    return SituationOfJob(state.LookUpJob(change->job).value_or(nullptr));
  }
  if (const auto* const cordon = std::get_if<CordonRequested>(&body)) {
    return SituationOfWorker(state, state.FindWorker(cordon->target));
  }
  if (const auto* const hello = std::get_if<HelloReceived>(&body)) {
    return SituationOfWorker(state, state.FindWorker(hello->name));
  }
  if (const SessionId session = SessionOf(body); session != 0) {
    return SituationOfWorker(state, state.FindSession(session));
  }
  if (!state.rebuildings.empty()) return "rebuilding";
  return SituationOfJob(state.active_jobs.empty()
                            ? nullptr
                            : &state.jobs.at(*state.active_jobs.begin()));
}

}  // namespace ringmaster::coordinator
