#include "common/rpc/openssl_exit.h"

#include <openssl/crypto.h>

namespace ringmaster {

void KeepOpenSslAtExit() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

}  // namespace ringmaster
