#include "server/coordinator/page/certificate.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "common/credentials/pem.h"
#include "common/credentials/tls_files.h"

namespace ringmaster::coordinator {
namespace {

bool Use(const TlsFiles& files, SSL* connection) {
  const Certificates chain = ParseCertificates(files.certificate);
  const KeyPtr key = ParseKey(files.key);
  if (chain.empty() || key == nullptr ||
      SSL_use_certificate(connection, chain.front().get()) != 1 ||
      SSL_use_PrivateKey(connection, key.get()) != 1) {
    return false;
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_add1_chain_cert(connection, chain[i].get()) != 1) return false;
  }
  return true;
}

// 1: go on with the handshake. TlsWatch hands out only files that fit together.
int UseNewest(SSL* connection, void* argument) {
  const auto files = static_cast<const TlsWatch*>(argument)->files();
  const bool is_used = Use(*files, connection);
  // The handshake would take what is left in OpenSSL's queue of errors for its own.
  ERR_clear_error();
  return is_used ? 1 : 0;
}

}  // namespace

void ShowCertificate(const TlsWatch& watch, SSL_CTX& context) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_cert_cb(&context, UseNewest, const_cast<TlsWatch*>(&watch));
}

bool NamesHost(const TlsWatch& watch, const std::string& host) {
  const Certificates chain = ParseCertificates(watch.files()->certificate);
  if (chain.empty()) return false;
  X509* const own = chain.front().get();
  const bool is_named =
      X509_check_host(own, host.data(), host.size(), 0, nullptr) == 1 ||
      X509_check_ip_asc(own, host.c_str(), 0) == 1;
  ERR_clear_error();
  return is_named;
}

}  // namespace ringmaster::coordinator
