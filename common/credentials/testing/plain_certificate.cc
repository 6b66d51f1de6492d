#include "common/credentials/testing/plain_certificate.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <utility>

#include "common/status/check.h"

namespace ringmaster {
namespace {

std::string TextOf(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string copy(text, static_cast<size_t>(size));
  BIO_free(bio);
  return copy;
}

}  // namespace

CertificateAndKey MakePlainCertificate(const PlainRequest& request,
                                       KeyPtr key) {
  const X509Ptr certificate(X509_new(), &X509_free);
  X509* const subject = certificate.get();
  ASN1_TIME_set(X509_getm_notBefore(subject), absl::ToTimeT(request.begin));
  ASN1_TIME_set(X509_getm_notAfter(subject), absl::ToTimeT(request.end));
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(subject), "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(request.name.data()),
      static_cast<int>(request.name.size()), -1, 0);
  X509_set_pubkey(subject, key.get());
  if (!request.extended_key_usage.empty()) {
    X509_set_version(subject, X509_VERSION_3);
    X509_EXTENSION* const usage =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_ext_key_usage,
                            request.extended_key_usage.c_str());
    X509_add_ext(subject, usage, -1);
    X509_EXTENSION_free(usage);
  }
  KeyPtr signer(nullptr, &EVP_PKEY_free);
  if (request.issuer == nullptr) {
    X509_set_issuer_name(subject, X509_get_subject_name(subject));
  } else {
    const Certificates issuer = ParseCertificates(request.issuer->certificate);
    X509_set_issuer_name(subject, X509_get_subject_name(issuer.front().get()));
    signer = ParseKey(request.issuer->key);
  }
  RM_CHECK(X509_sign(subject, signer == nullptr ? key.get() : signer.get(),
                     EVP_sha256()) > 0,
           "a certificate was not signed");
  BIO* const certificate_pem = BIO_new(BIO_s_mem());
  BIO* const key_pem = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(certificate_pem, subject);
  PEM_write_bio_PrivateKey(key_pem, key.get(), nullptr, nullptr, 0, nullptr,
                           nullptr);
  return {.certificate = TextOf(certificate_pem), .key = TextOf(key_pem)};
}

}  // namespace ringmaster
