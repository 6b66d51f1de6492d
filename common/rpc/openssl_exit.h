// KeepOpenSslAtExit has OpenSSL leave what it holds to the end of the process.
//
// It cleans up at exit otherwise (OPENSSL_init_crypto(3)), while threads of gRPC that
// have used it may still be about to end: once in thousands of calls with TLS memory
// was freed twice.
#ifndef RINGMASTER_COMMON_RPC_OPENSSL_EXIT_H_
#define RINGMASTER_COMMON_RPC_OPENSSL_EXIT_H_

namespace ringmaster {

// To be called before anything uses OpenSSL; later it does nothing.
void KeepOpenSslAtExit();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_OPENSSL_EXIT_H_
