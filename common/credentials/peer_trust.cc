#include "common/credentials/peer_trust.h"

#include <openssl/err.h>

#include <optional>

#include "common/credentials/chain.h"
#include "common/credentials/pem.h"

namespace ringmaster {

bool PeerTrust::Trusts(const std::string& chain) const {
  const std::shared_ptr<const TlsFiles> files = watch_->files();
  if (files == first_) return true;
  const Certificates peer = ParseCertificates(chain);
  if (peer.empty()) return false;
  const bool is_signed =
      !ChainOf(peer, ParseCertificates(files->ca), std::nullopt).empty();
  ERR_clear_error();  // OpenSSL's queue, which gRPC would report as its own.
  return is_signed;
}

}  // namespace ringmaster
