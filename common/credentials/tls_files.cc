#include "common/credentials/tls_files.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/read_file.h"
#include "common/credentials/chain.h"
#include "common/credentials/pem.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

std::string FormatDate(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

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

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  ASN1_TIME_to_tm(time, &parts);
  return absl::FromTimeT(timegm(&parts));
}

std::string SerialOf(const X509& certificate) {
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(&certificate), nullptr),
      &BN_free);
  char* const text = BN_bn2hex(number.get());
  const std::string serial = text;
  OPENSSL_free(text);
  return serial;
}

std::string SubjectOf(const X509& certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()),
                                                      &BIO_free);
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(&certificate),
                     /*indent=*/0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<size_t>(size)};
}

// SHA-256 by X509_digest or X509_pubkey_digest.
std::string DigestOf(const X509& certificate,
                     decltype(&X509_digest) digest_of = &X509_digest) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  digest_of(&certificate, EVP_sha256(),
            reinterpret_cast<unsigned char*>(digest.data()), &size);
  digest.resize(size);
  return digest;
}

std::vector<Authority> AuthoritiesOf(const Certificates& ca) {
  std::vector<Authority> authorities;
  for (const X509Ptr& each : ca) {
    const Authority next = {.subject = SubjectOf(*each),
                            .serial = SerialOf(*each),
                            .key_digest = DigestOf(*each, &X509_pubkey_digest),
                            .digest = DigestOf(*each),
                            .begin = TimeOf(X509_get0_notBefore(each.get())),
                            .end = TimeOf(X509_get0_notAfter(each.get()))};
    const auto known =
        std::find_if(authorities.begin(), authorities.end(),
                     [&](const Authority& authority) {
                       return authority.subject == next.subject &&
                              authority.key_digest == next.key_digest;
                     });
    if (known == authorities.end()) {
      authorities.push_back(next);
    } else if (known->end < next.end) {
      *known = next;
    }
  }
  return authorities;
}

// Narrows the time in which `files` is valid to the certificate's.
void Narrow(const X509& certificate, TlsFiles& files) {
  files.begin =
      std::max(files.begin, TimeOf(X509_get0_notBefore(&certificate)));
  files.end = std::min(files.end, TimeOf(X509_get0_notAfter(&certificate)));
}

// OK iff all certificates so far are valid at `now`, by this machine's clock.
absl::Status CheckDates(const TlsFiles& files, std::string_view flag,
                        const std::string& path, absl::Time now) {
  if (now < files.begin) {
    return WrongFile(
        flag, path,
        absl::StrCat("is not valid before ", FormatDate(files.begin),
                     ", and this machine's clock says ", FormatDate(now),
                     ": is it right?"));
  }
  if (now > files.end) {
    return WrongFile(flag, path,
                     absl::StrCat("has expired on ", FormatDate(files.end),
                                  ", and this machine's clock says ",
                                  FormatDate(now), ": issue another one"));
  }
  return absl::OkStatus();
}

// OK iff OpenSSL takes the certificates and the key as gRPC will give them to it: its
// security level, which the system sets, refuses short keys and old digests, and gRPC
// would tell nobody. `chain` may be empty.
absl::Status CheckSecurity(const CredentialsOptions& options,
                           const Certificates& own, const Certificates& chain,
                           EVP_PKEY* key) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> scratch(
      SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  const auto refused = [](std::string_view flag, const std::string& path) {
    const char* const why = ERR_reason_error_string(ERR_peek_last_error());
    return WrongFile(
        flag, path,
        absl::StrCat("TLS refuses it on this host: ",
                     why == nullptr ? "for no reason that it says" : why));
  };
  ERR_clear_error();
  if (SSL_CTX_use_certificate(scratch.get(), own.front().get()) != 1)
    return refused("--tls_cert_file", options.tls_cert_file);
  if (SSL_CTX_use_PrivateKey(scratch.get(), key) != 1)
    return refused("--tls_key_file", options.tls_key_file);
  for (size_t i = 1; i < own.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(scratch.get(), own[i].get()) != 1)
      return refused("--tls_cert_file", options.tls_cert_file);
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(scratch.get(), chain[i].get()) != 1)
      return refused("--tls_ca_file", options.tls_ca_file);
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const CredentialsOptions& options, absl::Time now,
                        TlsFiles& files) {
  Certificates ca;
  if (!files.ca.empty()) {
    ca = ParseCertificates(files.ca);
    if (ca.empty()) {
      return WrongFile("--tls_ca_file", options.tls_ca_file,
                       "is not a certificate in PEM");
    }
    files.authorities = AuthoritiesOf(ca);
    for (const X509Ptr& each : ca) files.ca_digests.insert(DigestOf(*each));
  }
  files.ca_store = StoreOf(ca);
  if (files.certificate.empty()) return absl::OkStatus();
  const Certificates own = ParseCertificates(files.certificate);
  if (own.empty()) {
    return WrongFile("--tls_cert_file", options.tls_cert_file,
                     "is not a certificate in PEM");
  }
  files.serial = SerialOf(*own.front());
  files.subject = SubjectOf(*own.front());
  files.digest = DigestOf(*own.front());
  for (const X509Ptr& each : own) Narrow(*each, files);
  RETURN_IF_ERROR(
      CheckDates(files, "--tls_cert_file", options.tls_cert_file, now));
  // Others' clients and servers take it for what it is.
  const Certificates chain = ChainOf(own, *files.ca_store, now, Usage::kAny);
  for (const X509Ptr& each : chain) Narrow(*each, files);
  files.is_signed_by_ca = !chain.empty();
  RETURN_IF_ERROR(CheckDates(files, "--tls_ca_file", options.tls_ca_file, now));
  const KeyPtr key = ParseKey(files.key);
  if (key == nullptr) {
    return WrongFile("--tls_key_file", options.tls_key_file,
                     "is not a private key in PEM without a password");
  }
  if (X509_check_private_key(own.front().get(), key.get()) != 1) {
    return WrongFile("--tls_key_file", options.tls_key_file,
                     absl::StrCat("does not belong to --tls_cert_file=",
                                  options.tls_cert_file));
  }
  return CheckSecurity(options, own, chain, key.get());
}

}  // namespace

absl::StatusOr<TlsFiles> ReadTlsFiles(const CredentialsOptions& options,
                                      absl::Time now) {
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
  const absl::Status checked = CheckFiles(options, now, files);
  ERR_clear_error();  // OpenSSL's queue, which gRPC would report as its own.
  RETURN_IF_ERROR(checked);
  return files;
}

}  // namespace ringmaster
