// PeerTrust: whether a peer that was let in by its certificate would be let in now.
//
// A handshake goes by the authorities of its time; a connection may stay open for
// longer than they are trusted.
//
// Thread-safe.
#ifndef RINGMASTER_COMMON_CREDENTIALS_PEER_TRUST_H_
#define RINGMASTER_COMMON_CREDENTIALS_PEER_TRUST_H_

#include <memory>
#include <string>
#include <utility>

#include "common/credentials/tls_watch.h"

namespace ringmaster {

class PeerTrust {
 public:
  // For connections that are made from now on.
  explicit PeerTrust(std::shared_ptr<const TlsWatch> watch)
      : watch_(std::move(watch)), first_(watch_->files()) {}

  // Returns true if an authority of the newest CA file signed the peer's certificate;
  // `chain` has that, and after it any intermediate ones, in PEM. Dates do not count: a
  // connection may outlive the certificate that began it. Returns false for a chain of
  // more than 10 certificates, which nobody has and all calls would pay for.
  [[nodiscard]] bool Trusts(const std::string& chain) const;

 private:
  const std::shared_ptr<const TlsWatch> watch_;
  // While these are the newest, every handshake went by them.
  const std::shared_ptr<const TlsFiles> first_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CREDENTIALS_PEER_TRUST_H_
