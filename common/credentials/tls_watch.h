// TlsWatch follows the TLS files of the flags, and hands out only sets that were read
// whole and checked.
//
// A set that does not check out changes nothing, and is one line of the log,
// `certificate.refused`, with the file and the reason. It has to stay so for two looks,
// since a certificate and its key are replaced one after the other. A set that is taken
// over is one line, too, `certificate.renewed`. One in whose CA file an authority is
// missing has to be there for two looks, too: a file that is written in place may be cut
// between two of them, and what they let in would end. A certificate that ends soon
// (EndWarning), has ended, or has not begun, is a line at once and then each day; so is
// an authority of the CA file.
//
// Thread-safe.
#ifndef RINGMASTER_COMMON_CREDENTIALS_TLS_WATCH_H_
#define RINGMASTER_COMMON_CREDENTIALS_TLS_WATCH_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/file_changes.h"
#include "common/credentials/credentials.h"
#include "common/credentials/tls_files.h"
#include "common/sync/mutex.h"

namespace ringmaster {

// A certificate that this process shows, or an authority by which it knows others.
struct FollowedCertificate {
  std::string file;
  std::string subject = {};
  std::string serial = {};
  std::string digest = {};  // SHA-256
  bool is_authority = false;
  absl::Time begin;
  absl::Time end;
};

// How long before its end a certificate is warned of: two weeks, or a quarter of the time
// in which it is valid if that is less. Whatever renews certificates at two thirds of
// their time, as most do, has done so by then.
[[nodiscard]] absl::Duration EndWarning(absl::Time begin, absl::Time end);

class TlsWatch {
 public:
  // Reads the files that `options` names. INVALID_ARGUMENT as in credentials.h.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TlsWatch>> Open(
      const CredentialsOptions& options, absl::Time now);

  // The newest set that checked out.
  [[nodiscard]] std::shared_ptr<const TlsFiles> files() const EXCLUDES(mutex_);

  // Takes over files that have changed since. A set is refused if it would have been at
  // the start, or if the CA file signed the certificate before and not this one. One
  // call at a time; `now` is this machine's clock, which says what is valid.
  void Poll(absl::Time now) EXCLUDES(mutex_);

  // The newest set's: the certificate, if there is one, and the authorities.
  [[nodiscard]] std::vector<FollowedCertificate> certificates() const;

 private:
  TlsWatch(const CredentialsOptions& options, FileChanges changes);

  void TakeOverChanges(absl::Time now) EXCLUDES(mutex_);
  void WarnOfEnd(absl::Time now) EXCLUDES(mutex_);
  [[nodiscard]] absl::StatusOr<TlsFiles> ReadNext(absl::Time now) const;

  const CredentialsOptions options_;

  enum class Validity { kGood, kNotYet, kEndsSoon, kEnded };
  struct Warned {
    Validity validity = Validity::kGood;  // as said last
    absl::Time next = absl::InfinitePast();
  };
  [[nodiscard]] static Validity ValidityOf(
      const FollowedCertificate& certificate, absl::Time now);
  // Logs what `warned` says anew.
  static void Warn(const FollowedCertificate& certificate, absl::Time now,
                   Warned& warned);

  // Poll's.
  FileChanges changes_;
  // The CA file that lacked an authority when it was last looked at.
  std::string withheld_;
  std::map<std::pair<std::string, std::string>, Warned>
      warned_;  // file, digest

  mutable Mutex mutex_;
  std::shared_ptr<const TlsFiles> files_ GUARDED_BY(mutex_);
};

// The watch of the files that `options` names, looked at each second while anybody has
// it: one for all who name the same files in this process.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const TlsWatch>> FollowTlsFiles(
    const CredentialsOptions& options);

// All that are followed in this process, each once.
[[nodiscard]] std::vector<FollowedCertificate> FollowedCertificates();

// The one of them that this process shows and that is the first to end, if that is to be
// warned of at `now`.
[[nodiscard]] std::optional<FollowedCertificate> OwnCertificateEndingSoon(
    absl::Time now);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_TLS_WATCH_H_
