#include "common/credentials/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/read_file.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;
using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status WrongFile(std::string_view flag, const std::string& path,
                       std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(flag), "=", path, ": ", std::string(why)));
}

absl::StatusOr<std::string> ReadFile(std::string_view flag,
                                     const std::string& path) {
  if (path.empty()) return std::string();
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) {
    return WrongFile(flag, path, std::string(text.status().message()));
  }
  if (text->empty()) return WrongFile(flag, path, "is empty");
  return text;
}

X509Ptr ParseCertificate(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                   &BIO_free);
  return {PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), &X509_free};
}

// A key with a password is not read: there is nobody to ask for it.
KeyPtr ParseKey(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                   &BIO_free);
  const auto refuse = [](char*, int, int, void*) { return -1; };
  return {PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse, nullptr),
          &EVP_PKEY_free};
}

// OK iff the certificate is valid by this machine's clock.
absl::Status CheckDates(const X509& certificate, const std::string& path) {
  const auto date = [](const ASN1_TIME* time) {
    const BioPtr bio(BIO_new(BIO_s_mem()), &BIO_free);
    ASN1_TIME_print_ex(bio.get(), time, ASN1_DTFLGS_ISO8601);
    char* text = nullptr;
    const auto size = BIO_get_mem_data(bio.get(), &text);
    return std::string(text, static_cast<size_t>(size));
  };
  const ASN1_TIME* const begin = X509_get0_notBefore(&certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(&certificate);
  if (X509_cmp_current_time(begin) > 0) {
    return WrongFile("--tls_cert_file", path,
                     absl::StrCat("is not valid before ", date(begin),
                                  "; does this machine's clock go right?"));
  }
  if (X509_cmp_current_time(end) < 0) {
    return WrongFile(
        "--tls_cert_file", path,
        absl::StrCat("has expired on ", date(end), "; issue another one"));
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const CredentialsOptions& options,
                        const TlsFiles& files) {
  if (!files.ca.empty() && ParseCertificate(files.ca) == nullptr) {
    return WrongFile("--tls_ca_file", options.tls_ca_file,
                     "is not a certificate in PEM");
  }
  if (files.certificate.empty()) return absl::OkStatus();
  const X509Ptr certificate = ParseCertificate(files.certificate);
  if (certificate == nullptr) {
    return WrongFile("--tls_cert_file", options.tls_cert_file,
                     "is not a certificate in PEM");
  }
  RETURN_IF_ERROR(CheckDates(*certificate, options.tls_cert_file));
  const KeyPtr key = ParseKey(files.key);
  if (key == nullptr) {
    return WrongFile("--tls_key_file", options.tls_key_file,
                     "is not a private key in PEM without a password");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return WrongFile("--tls_key_file", options.tls_key_file,
                     absl::StrCat("does not belong to --tls_cert_file=",
                                  options.tls_cert_file));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsFiles> ReadTlsFiles(const CredentialsOptions& options) {
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return absl::InvalidArgumentError(
        options.tls_key_file.empty()
            ? "--tls_cert_file needs --tls_key_file as well"
            : "--tls_key_file needs --tls_cert_file as well");
  }
  TlsFiles files;
  ASSIGN_OR_RETURN(files.ca, ReadFile("--tls_ca_file", options.tls_ca_file));
  ASSIGN_OR_RETURN(files.certificate,
                   ReadFile("--tls_cert_file", options.tls_cert_file));
  ASSIGN_OR_RETURN(files.key, ReadFile("--tls_key_file", options.tls_key_file));
  const absl::Status checked = CheckFiles(options, files);
  ERR_clear_error();  // OpenSSL's queue, which gRPC would report as its own.
  RETURN_IF_ERROR(checked);
  return files;
}

}  // namespace ringmaster
