#include "common/credentials/authority.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/credentials/pem.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;

// The error for a call of OpenSSL that failed; empties its queue, which gRPC would
// report as its own.
absl::Status Failed(absl::string_view what) {
  std::array<char, 256> text = {};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, " failed: ", text.data()));
}

std::string TextOf(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return {text, static_cast<size_t>(size)};
}

absl::StatusOr<std::string> ToPem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()), &BIO_free);
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return Failed("writing a certificate");
  }
  return TextOf(bio.get());
}

absl::StatusOr<std::string> ToPem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()), &BIO_free);
  if (PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr,
                               nullptr) != 1) {
    return Failed("writing a key");
  }
  return TextOf(bio.get());
}

absl::StatusOr<X509Ptr> CertificateFrom(const std::string& pem) {
  Certificates certificates = ParseCertificates(pem);
  if (certificates.empty())
    return absl::InvalidArgumentError("is not a certificate in PEM");
  return std::move(certificates.front());
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid,
                          const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return Failed(absl::StrCat("extension ", value));
  const int added = X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return added == 1 ? absl::OkStatus()
                    : Failed(absl::StrCat("extension ", value));
}

absl::Status SetDates(X509* certificate, absl::Time begin, absl::Time end) {
  if (ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(begin)) ==
          nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(end)) ==
          nullptr) {
    return Failed("setting a certificate's dates");
  }
  return absl::OkStatus();
}

// 127 random bits: unique, positive, at most 20 bytes (RFC 5280, section 4.1.2.2).
absl::Status SetSerial(X509* certificate) {
  std::array<unsigned char, 16> bytes = {};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return Failed("RAND_bytes");
  bytes[0] &= 0x7F;
  BIGNUM* const number = BN_bin2bn(bytes.data(), bytes.size(), nullptr);
  const bool ok =
      BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return ok ? absl::OkStatus() : Failed("setting a serial number");
}

// One that nobody has signed yet.
absl::StatusOr<X509Ptr> NewCertificate(const std::string& name, EVP_PKEY* key,
                                       absl::Time begin, absl::Time end) {
  X509Ptr certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  RETURN_IF_ERROR(SetSerial(certificate.get()));
  RETURN_IF_ERROR(SetDates(certificate.get(), begin, end));
  if (X509_NAME_add_entry_by_txt(
          X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
          reinterpret_cast<const unsigned char*>(name.data()),
          static_cast<int>(name.size()), -1, 0) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return Failed(absl::StrCat("naming the certificate of ", name));
  }
  return certificate;
}

absl::StatusOr<KeyPtr> NewKey() {
  KeyPtr key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  if (key == nullptr) return Failed("making a key");
  return key;
}

bool IsAddress(const std::string& host) {
  std::array<unsigned char, 16> bytes = {};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// A DNS name, perhaps "*.example.org"; or a part of a URI's path. None has what
// would end the entry in a list of OpenSSL's.
bool IsName(const std::string& text) {
  return !text.empty() && text.size() <= 253 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' ||
                  c == '*' || c == '@';
         });
}

absl::StatusOr<std::string> AlternativeNames(const CertificateRequest& request,
                                             const std::string& domain) {
  std::vector<std::string> names;
  for (const std::string& part : request.roles) {
    if (!IsName(part) || !IsName(request.name) || !IsName(domain)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", domain, "\", \"", part, "\" and \"", request.name,
                       "\" must be letters, digits, '-', '_', '.' or '@'"));
    }
    names.push_back(absl::StrCat("URI:spiffe://", domain, "/ringmaster/", part,
                                 "/", request.name));
  }
  for (const std::string& host : request.hosts) {
    if (!IsAddress(host) && !IsName(host)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", host, "\" is neither an address nor a DNS name"));
    }
    names.push_back(absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host));
  }
  return absl::StrJoin(names, ",");
}

std::string CommonName(X509* certificate) {
  std::array<char, 256> text = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                            text.data(), text.size());
  return text.data();
}

}  // namespace

struct CertificateAuthority::Impl {
  X509Ptr certificate;
  KeyPtr key;

  [[nodiscard]] absl::Status Sign(X509* subject) const {
    if (X509_set_issuer_name(subject,
                             X509_get_subject_name(certificate.get())) != 1 ||
        X509_sign(subject, key.get(), EVP_sha256()) <= 0) {
      return Failed("signing a certificate");
    }
    return absl::OkStatus();
  }
};

CertificateAuthority::CertificateAuthority(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
CertificateAuthority::CertificateAuthority(CertificateAuthority&&) noexcept =
    default;
CertificateAuthority& CertificateAuthority::operator=(
    CertificateAuthority&&) noexcept = default;
CertificateAuthority::~CertificateAuthority() = default;

absl::StatusOr<CertificateAuthority> CertificateAuthority::Create(
    const std::string& name, absl::Time begin, absl::Time end) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", name, "\" must be letters, digits, '-', '_' or '.'"));
  }
  ASSIGN_OR_RETURN(KeyPtr key, NewKey());
  ASSIGN_OR_RETURN(X509Ptr certificate,
                   NewCertificate(name, key.get(), begin, end));
  X509* const self = certificate.get();
  RETURN_IF_ERROR(AddExtension(self, self, NID_basic_constraints,
                               "critical,CA:TRUE,pathlen:0"));
  RETURN_IF_ERROR(
      AddExtension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign"));
  RETURN_IF_ERROR(AddExtension(self, self, NID_subject_key_identifier, "hash"));
  auto impl = std::make_unique<Impl>(
      Impl{.certificate = std::move(certificate), .key = std::move(key)});
  RETURN_IF_ERROR(impl->Sign(self));
  return CertificateAuthority(std::move(impl));
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::Load(
    const CertificateAndKey& pem) {
  ASSIGN_OR_RETURN(X509Ptr certificate, CertificateFrom(pem.certificate));
  KeyPtr key = ParseKey(pem.key);
  if (key == nullptr ||
      X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("has another key than the certificate");
  }
  if (X509_check_ca(certificate.get()) != 1) {
    return absl::InvalidArgumentError("is not the certificate of an authority");
  }
  return CertificateAuthority(std::make_unique<Impl>(
      Impl{.certificate = std::move(certificate), .key = std::move(key)}));
}

absl::StatusOr<CertificateAndKey> CertificateAuthority::pem() const {
  CertificateAndKey pem;
  ASSIGN_OR_RETURN(pem.certificate, ToPem(impl_->certificate.get()));
  ASSIGN_OR_RETURN(pem.key, ToPem(impl_->key.get()));
  return pem;
}

absl::StatusOr<CertificateAndKey> CertificateAuthority::Issue(
    const CertificateRequest& request) const {
  X509* const issuer = impl_->certificate.get();
  ASSIGN_OR_RETURN(const std::string names,
                   AlternativeNames(request, CommonName(issuer)));
  ASSIGN_OR_RETURN(const KeyPtr key, NewKey());
  ASSIGN_OR_RETURN(
      const X509Ptr certificate,
      NewCertificate(request.name, key.get(), request.begin, request.end));
  X509* const subject = certificate.get();
  const std::pair<int, std::string> extensions[] = {
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "serverAuth,clientAuth"},
      {NID_subject_key_identifier, "hash"},
      {NID_authority_key_identifier, "keyid:always"},
      {NID_subject_alt_name, names}};
  for (const auto& [nid, value] : extensions) {
    if (value.empty()) continue;
    RETURN_IF_ERROR(AddExtension(subject, issuer, nid, value));
  }
  RETURN_IF_ERROR(impl_->Sign(subject));
  CertificateAndKey pem;
  ASSIGN_OR_RETURN(pem.certificate, ToPem(subject));
  ASSIGN_OR_RETURN(pem.key, ToPem(key.get()));
  return pem;
}

absl::StatusOr<std::string> CertificateAuthority::Renew(
    const std::string& old, absl::Time begin) const {
  ASSIGN_OR_RETURN(const X509Ptr certificate, CertificateFrom(old));
  X509* const subject = certificate.get();
  if (X509_verify(subject, impl_->key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("was signed by another authority");
  }
  int days = 0;
  int seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(subject),
                     X509_get0_notAfter(subject)) != 1) {
    return Failed("reading a certificate's dates");
  }
  RETURN_IF_ERROR(SetSerial(subject));
  RETURN_IF_ERROR(SetDates(
      subject, begin, begin + absl::Hours(24) * days + absl::Seconds(seconds)));
  RETURN_IF_ERROR(impl_->Sign(subject));
  return ToPem(subject);
}

}  // namespace ringmaster
