#include "common/credentials/tls_watch.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock/clock.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "common/text/instant.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
// A look takes milliseconds.
constexpr absl::Duration kLookPatience = absl::Seconds(1);
constexpr absl::Duration kMaxEndWarning = absl::Hours(14 * 24);
constexpr absl::Duration kWarningInterval = absl::Hours(24);

// A watch and the thread that looks. A disk that hangs may hold a look for ever, and must
// not hold the end of the process: such a thread is left behind, with what it uses.
class Followed {
 public:
  explicit Followed(std::unique_ptr<TlsWatch> opened)
      : state_(std::make_shared<State>(std::move(opened))),
        thread_([state = state_] { state->Run(); }) {}

  ~Followed() {
    if (state_->Stop()) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  [[nodiscard]] const TlsWatch& watch() const { return *state_->watch; }

 private:
  struct State {
    explicit State(std::unique_ptr<TlsWatch> opened)
        : watch(std::move(opened)) {}

    void Run() EXCLUDES(mutex);
    // Returns true if the thread ends, or false if its look takes too long.
    [[nodiscard]] bool Stop() EXCLUDES(mutex);

    const std::unique_ptr<TlsWatch> watch;
    Mutex mutex;
    CondVar changed;
    bool is_stopped GUARDED_BY(mutex) = false;
    bool has_ended GUARDED_BY(mutex) = false;
  };

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

void Followed::State::Run() {
  while (true) {
    watch->Poll(absl::Now());
    const MonotonicTime next = Clock::Real().Now() + kInterval;
    MutexLock lock(mutex);
    while (!is_stopped && changed.WaitUntil(mutex, Clock::Real(), next)) {
    }
    if (!is_stopped) continue;
    has_ended = true;
    changed.NotifyAll();
    return;
  }
}

bool Followed::State::Stop() {
  const MonotonicTime deadline = Clock::Real().Now() + kLookPatience;
  MutexLock lock(mutex);
  is_stopped = true;
  changed.NotifyAll();
  while (!has_ended && changed.WaitUntil(mutex, Clock::Real(), deadline)) {
  }
  return has_ended;
}

// CA, certificate and key.
using Paths = std::tuple<std::string, std::string, std::string>;

// All that are followed in this process.
struct Registry {
  Mutex mutex;
  std::map<Paths, std::weak_ptr<Followed>> followed GUARDED_BY(mutex);
};

Registry& GetRegistry() {
  static Registry& registry = *new Registry();
  return registry;
}

}  // namespace

absl::Duration EndWarning(absl::Time begin, absl::Time end) {
  return std::min<absl::Duration>(kMaxEndWarning, (end - begin) / 4);
}

absl::StatusOr<std::unique_ptr<TlsWatch>> TlsWatch::Open(
    const CredentialsOptions& options, absl::Time now) {
  FileChanges changes(
      {options.tls_ca_file, options.tls_cert_file, options.tls_key_file});
  (void)changes.Look();
  ASSIGN_OR_RETURN(TlsFiles files, ReadTlsFiles(options, now));
  changes.Accept();
  std::unique_ptr<TlsWatch> watch(new TlsWatch(options, std::move(changes)));
  MutexLock lock(watch->mutex_);
  watch->files_ = std::make_shared<const TlsFiles>(std::move(files));
  return watch;
}

TlsWatch::TlsWatch(const CredentialsOptions& options, FileChanges changes)
    : options_(options), changes_(std::move(changes)) {}

std::shared_ptr<const TlsFiles> TlsWatch::files() const {
  MutexLock lock(mutex_);
  return files_;
}

absl::StatusOr<TlsFiles> TlsWatch::ReadNext(absl::Time now) const {
  ASSIGN_OR_RETURN(TlsFiles next, ReadTlsFiles(options_, now));
  if (!files()->is_signed_by_ca || next.is_signed_by_ca) return next;
  return absl::InvalidArgumentError(
      absl::StrCat("--tls_cert_file=", options_.tls_cert_file,
                   ": no authority of --tls_ca_file=", options_.tls_ca_file,
                   " signed it, and one had signed the certificate before it"));
}

void TlsWatch::Poll(absl::Time now) {
  TakeOverChanges(now);
  WarnOfEnd(now);
}

void TlsWatch::TakeOverChanges(absl::Time now) {
  if (!changes_.Look()) return;
  absl::StatusOr<TlsFiles> next = ReadNext(now);
  if (!next.ok()) {
    if (changes_.Refuse() != 2) return;
    LogEvent(LogLevel::kError, "certificate.refused",
             {{"error", absl::StrCat(next.status().message(),
                                     "; the one before stays in use")}});
    return;
  }
  const std::shared_ptr<const TlsFiles> before = this->files();
  const bool lacks_one =
      !std::includes(next->ca_digests.begin(), next->ca_digests.end(),
                     before->ca_digests.begin(), before->ca_digests.end());
  // By what it holds, not by its time: some files are written anew each second.
  if (lacks_one && withheld_ != next->ca) {
    withheld_ = next->ca;
    return;
  }
  withheld_.clear();
  changes_.Accept();
  LogEvent(LogLevel::kInfo, "certificate.renewed",
           {{"file", options_.tls_cert_file},
            {"ca_file", options_.tls_ca_file},
            {"serial", next->serial},
            {"end", FormatInstant(next->end, absl::UTCTimeZone())}});
  auto files = std::make_shared<const TlsFiles>(*std::move(next));
  MutexLock lock(mutex_);
  files_ = std::move(files);
}

std::vector<FollowedCertificate> TlsWatch::certificates() const {
  const std::shared_ptr<const TlsFiles> files = this->files();
  std::vector<FollowedCertificate> certificates;
  if (!files->certificate.empty()) {
    certificates.push_back({.file = options_.tls_cert_file,
                            .subject = files->subject,
                            .serial = files->serial,
                            .digest = files->digest,
                            .begin = files->begin,
                            .end = files->end});
  }
  for (const Authority& authority : files->authorities) {
    certificates.push_back({.file = options_.tls_ca_file,
                            .subject = authority.subject,
                            .serial = authority.serial,
                            .digest = authority.digest,
                            .is_authority = true,
                            .begin = authority.begin,
                            .end = authority.end});
  }
  return certificates;
}

TlsWatch::Validity TlsWatch::ValidityOf(const FollowedCertificate& certificate,
                                        absl::Time now) {
  if (now < certificate.begin) return Validity::kNotYet;
  if (now >= certificate.end) return Validity::kEnded;
  return now < certificate.end - EndWarning(certificate.begin, certificate.end)
             ? Validity::kGood
             : Validity::kEndsSoon;
}

void TlsWatch::Warn(const FollowedCertificate& certificate, absl::Time now,
                    Warned& warned) {
  const Validity validity = ValidityOf(certificate, now);
  const bool is_news = std::exchange(warned.validity, validity) != validity;
  if (validity == Validity::kGood || (!is_news && now < warned.next)) return;
  warned.next = now + kWarningInterval;
  const auto log = [&](LogLevel level, std::string_view event,
                       std::string_view message) {
    LogEvent(level, event,
             {{"file", certificate.file},
              {"subject", certificate.subject},
              {"serial", certificate.serial},
              {"begin", FormatInstant(certificate.begin, absl::UTCTimeZone())},
              {"end", FormatInstant(certificate.end, absl::UTCTimeZone())},
              {"clock", FormatInstant(now, absl::UTCTimeZone())},
              {"message", message}});
  };
  if (validity == Validity::kNotYet) {
    log(LogLevel::kError, "certificate.not_valid_yet",
        "others may refuse it; is this machine's clock right?");
  } else if (validity == Validity::kEnded) {
    log(LogLevel::kError, "certificate.expired",
        certificate.is_authority
            ? "whatever it signed is refused; take it out of the file once "
              "nobody needs it, and look at this machine's clock if it should "
              "be valid"
            : "others refuse it, or it them; issue another one, and look at "
              "this machine's clock if it should be valid");
  } else {
    log(LogLevel::kWarning, "certificate.expires",
        certificate.is_authority
            ? "whatever it signed is refused then; add another authority to "
              "the file, and issue certificates from that"
            : "issue another one; it is used without a restart");
  }
}

void TlsWatch::WarnOfEnd(absl::Time now) {
  std::map<std::pair<std::string, std::string>, Warned> warned;
  for (const FollowedCertificate& each : certificates()) {
    Warned& last = warned_[{each.file, each.digest}];
    Warn(each, now, last);
    warned[{each.file, each.digest}] = last;
  }
  warned_ = std::move(warned);
}

absl::StatusOr<std::shared_ptr<const TlsWatch>> FollowTlsFiles(
    const CredentialsOptions& options) {
  const Paths paths = {options.tls_ca_file, options.tls_cert_file,
                       options.tls_key_file};
  Registry& registry = GetRegistry();
  MutexLock lock(registry.mutex);
  std::weak_ptr<Followed>& known = registry.followed[paths];
  std::shared_ptr<Followed> followed = known.lock();
  if (followed == nullptr) {
    ASSIGN_OR_RETURN(std::unique_ptr<TlsWatch> watch,
                     TlsWatch::Open(options, absl::Now()));
    followed = std::make_shared<Followed>(std::move(watch));
    known = followed;
  }
  const TlsWatch* const watch = &followed->watch();
  return std::shared_ptr<const TlsWatch>(std::move(followed), watch);
}

std::vector<FollowedCertificate> FollowedCertificates() {
  // Let go of without the lock, since the last to have one waits for its thread.
  std::vector<std::shared_ptr<Followed>> all;
  {
    Registry& registry = GetRegistry();
    MutexLock lock(registry.mutex);
    for (const auto& [paths, known] : registry.followed) {
      if (auto followed = known.lock()) all.push_back(std::move(followed));
    }
  }
  std::vector<FollowedCertificate> certificates;
  std::set<std::pair<std::string, std::string>> known;  // file, digest
  for (const auto& followed : all) {
    for (FollowedCertificate& each : followed->watch().certificates()) {
      if (known.emplace(each.file, each.digest).second)
        certificates.push_back(std::move(each));
    }
  }
  return certificates;
}

std::optional<FollowedCertificate> OwnCertificateEndingSoon(absl::Time now) {
  std::optional<FollowedCertificate> first;
  for (FollowedCertificate& each : FollowedCertificates()) {
    if (each.is_authority || now < each.end - EndWarning(each.begin, each.end))
      continue;
    if (!first.has_value() || each.end < first->end) first = std::move(each);
  }
  return first;
}

}  // namespace ringmaster
