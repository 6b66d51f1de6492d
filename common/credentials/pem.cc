#include "common/credentials/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <string_view>
#include <utility>

namespace ringmaster {
namespace {

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;

BioPtr Reader(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
          &BIO_free};
}

// True if `pem` ends within a line that begins a block, which OpenSSL takes for text
// beside the blocks.
bool EndsInStartLine(std::string_view pem) {
  constexpr std::string_view kStart = "-----BEGIN ";
  const std::string_view last = pem.substr(pem.rfind('\n') + 1);
  return !last.empty() &&
         last.substr(0, kStart.size()) == kStart.substr(0, last.size());
}

}  // namespace

Certificates ParseCertificates(const std::string& pem) {
  const BioPtr bio = Reader(pem);
  Certificates certificates;
  ERR_clear_error();
  while (true) {
    X509Ptr next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr),
                 &X509_free);
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  const bool is_at_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!is_at_end || EndsInStartLine(pem)) certificates.clear();
  ERR_clear_error();
  return certificates;
}

KeyPtr ParseKey(const std::string& pem) {
  const BioPtr bio = Reader(pem);
  const auto refuse = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse, nullptr),
             &EVP_PKEY_free);
  ERR_clear_error();
  return key;
}

}  // namespace ringmaster
