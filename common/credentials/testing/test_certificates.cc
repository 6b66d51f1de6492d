#include "common/credentials/testing/test_certificates.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "common/status/check.h"

namespace ringmaster {
namespace {

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;

constexpr long kLifetimeSeconds = 3600;  // NOLINT(google-runtime-int): X509's

void AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  RM_CHECK(extension != nullptr, value);
  RM_CHECK(X509_add_ext(certificate, extension, -1) == 1, value);
  X509_EXTENSION_free(extension);
}

// A certificate for `key` that nobody has signed yet.
X509Ptr NewCertificate(const std::string& name, EVP_PKEY* key) {
  X509Ptr certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), 2);  // X.509 v3
  uint32_t serial = 0;
  RM_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&serial),
                      sizeof(serial)) == 1,
           "no random bytes");
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kLifetimeSeconds);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  RM_CHECK(X509_set_pubkey(certificate.get(), key) == 1, "no public key");
  return certificate;
}

void Sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key) {
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  RM_CHECK(X509_sign(certificate, issuer_key, EVP_sha256()) > 0, "not signed");
}

template <typename WriteFn>
void WriteFile(const std::string& path, WriteFn write) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  RM_CHECK(file != nullptr, path);
  RM_CHECK(write(file) == 1, path);
  RM_CHECK(std::fclose(file) == 0, path);
}

void WriteCertificate(const std::string& path, X509* certificate) {
  WriteFile(path, [certificate](std::FILE* file) {
    return PEM_write_X509(file, certificate);
  });
}

KeyPtr NewKey() {
  KeyPtr key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  RM_CHECK(key != nullptr, "no key");
  return key;
}

}  // namespace

struct TestCertificates::Authority {
  KeyPtr key;
  X509Ptr certificate;
};

TestCertificates::TestCertificates(std::string directory, std::string name)
    : prefix_(std::move(directory) + "/" + name) {
  KeyPtr key = NewKey();
  X509Ptr certificate = NewCertificate(name, key.get());
  AddExtension(certificate.get(), certificate.get(), NID_basic_constraints,
               "critical,CA:TRUE");
  Sign(certificate.get(), certificate.get(), key.get());
  WriteCertificate(ca_file(), certificate.get());
  authority_ = std::make_unique<Authority>(
      Authority{std::move(key), std::move(certificate)});
}

TestCertificates::~TestCertificates() = default;

std::string TestCertificates::ca_file() const { return prefix_ + "-ca.pem"; }

TestCertificates::Files TestCertificates::Issue(const std::string& who) const {
  const Files files = {.certificate = prefix_ + "-" + who + ".pem",
                       .key = prefix_ + "-" + who + ".key"};
  const KeyPtr key = NewKey();
  const X509Ptr certificate = NewCertificate(who, key.get());
  AddExtension(certificate.get(), authority_->certificate.get(),
               NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
  Sign(certificate.get(), authority_->certificate.get(), authority_->key.get());
  WriteCertificate(files.certificate, certificate.get());
  WriteFile(files.key, [&key](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr,
                                nullptr);
  });
  return files;
}

}  // namespace ringmaster
