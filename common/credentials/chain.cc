#include "common/credentials/chain.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>

namespace ringmaster {

namespace {

int IgnoreDates(int is_ok, X509_STORE_CTX* context) {
  const int error = X509_STORE_CTX_get_error(context);
  if (error != X509_V_ERR_CERT_HAS_EXPIRED &&
      error != X509_V_ERR_CERT_NOT_YET_VALID)
    return is_ok;
  X509_STORE_CTX_set_error(context, X509_V_OK);
  return 1;
}

}  // namespace

std::shared_ptr<X509_STORE> StoreOf(const Certificates& ca) {
  std::shared_ptr<X509_STORE> store(X509_STORE_new(), &X509_STORE_free);
  for (const X509Ptr& each : ca) X509_STORE_add_cert(store.get(), each.get());
  return store;
}

Certificates ChainOf(const Certificates& own, X509_STORE& ca, absl::Time now,
                     Usage usage) {
  const std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> others(
      sk_X509_new_null(), [](STACK_OF(X509) * stack) { sk_X509_free(stack); });
  for (const X509Ptr& each : own) sk_X509_push(others.get(), each.get());
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
      X509_STORE_CTX_new(), &X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), &ca, own.front().get(), others.get());
  // An intermediate authority alone is enough, as it is for gRPC.
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_PARTIAL_CHAIN);
  X509_STORE_CTX_set_time(context.get(), /*flags=*/0, absl::ToTimeT(now));
  X509_STORE_CTX_set_verify_cb(context.get(), &IgnoreDates);
  if (usage == Usage::kClient)
    X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_CLIENT);
  Certificates chain;
  if (X509_verify_cert(context.get()) != 1) return chain;
  STACK_OF(X509)* const found = X509_STORE_CTX_get0_chain(context.get());
  for (int i = 0; i < sk_X509_num(found); ++i) {
    X509_up_ref(sk_X509_value(found, i));
    chain.emplace_back(sk_X509_value(found, i), &X509_free);
  }
  return chain;
}

}  // namespace ringmaster
