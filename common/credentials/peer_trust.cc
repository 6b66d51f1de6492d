#include "common/credentials/peer_trust.h"

#include <openssl/err.h>

#include <string_view>

#include "absl/time/clock.h"
#include "common/credentials/chain.h"
#include "common/credentials/pem.h"

namespace ringmaster {

namespace {

constexpr int kMaxChain = 10;

int CountCertificates(std::string_view pem) {
  constexpr std::string_view kStart = "-----BEGIN ";
  int count = 0;
  for (size_t at = pem.find(kStart); at != std::string_view::npos;
       at = pem.find(kStart, at + kStart.size()))
    ++count;
  return count;
}

}  // namespace

bool PeerTrust::Trusts(const std::string& chain) const {
  // The peer's own may be there twice.
  if (CountCertificates(chain) > kMaxChain + 1) return false;
  const std::shared_ptr<const TlsFiles> files = watch_->files();
  if (files == first_) return true;
  const Certificates peer = ParseCertificates(chain);
  if (peer.empty()) return false;
  const bool is_signed =
      !ChainOf(peer, *files->ca_store, absl::Now(), Usage::kClient).empty();
  ERR_clear_error();  // OpenSSL's queue, which gRPC would report as its own.
  return is_signed;
}

}  // namespace ringmaster
