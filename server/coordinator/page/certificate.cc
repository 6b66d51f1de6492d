#include "server/coordinator/page/certificate.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

#include "common/credentials/tls_files.h"

namespace ringmaster::coordinator {
namespace {

struct Deleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using BioPtr = std::unique_ptr<BIO, Deleter>;
using X509Ptr = std::unique_ptr<X509, Deleter>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter>;

BioPtr Reader(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

X509Ptr NextCertificate(BIO& pem) {
  return X509Ptr(PEM_read_bio_X509(&pem, nullptr, nullptr, nullptr));
}

// 1: go on with the handshake. TlsWatch hands out only files that fit together.
int UseNewest(SSL* connection, void* argument) {
  const auto files = static_cast<const TlsWatch*>(argument)->files();
  const BioPtr pem = Reader(files->certificate);
  const X509Ptr own = NextCertificate(*pem);
  const KeyPtr key(PEM_read_bio_PrivateKey(Reader(files->key).get(), nullptr,
                                           nullptr, nullptr));
  if (own == nullptr || key == nullptr ||
      SSL_use_certificate(connection, own.get()) != 1 ||
      SSL_use_PrivateKey(connection, key.get()) != 1) {
    return 0;
  }
  while (const X509Ptr next = NextCertificate(*pem)) {
    if (SSL_add1_chain_cert(connection, next.get()) != 1) return 0;
  }
  return 1;
}

}  // namespace

void ShowCertificate(const TlsWatch& watch, SSL_CTX& context) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_cert_cb(&context, UseNewest, const_cast<TlsWatch*>(&watch));
}

bool NamesHost(const TlsWatch& watch, const std::string& host) {
  const auto files = watch.files();
  const X509Ptr certificate = NextCertificate(*Reader(files->certificate));
  return certificate != nullptr &&
         (X509_check_host(certificate.get(), host.data(), host.size(), 0,
                          nullptr) == 1 ||
          X509_check_ip_asc(certificate.get(), host.c_str(), 0) == 1);
}

}  // namespace ringmaster::coordinator
