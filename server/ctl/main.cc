// The `ringctl` binary.
#include <openssl/crypto.h>

#include <string>
#include <vector>

#include "common/clock/clock.h"
#include "common/logging/logging.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_log.h"
#include "server/ctl/commands/command_line.h"
#include "server/ctl/terminal/console.h"
#include "server/ctl/terminal/interrupts.h"

int main(int argc, char** argv) {
  // Threads of gRPC that have used it may still be about to end as the process does,
  // after OpenSSL has cleaned up (OPENSSL_init_crypto(3)): once in thousands of calls
  // memory was freed twice. What is left at the end the kernel takes.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ringmaster::ctl::Interrupts::Block();
  ringmaster::SetResolverOptions();
  // Its lines are for programs that nobody watches; here only errors interrupt.
  (void)ringmaster::InitLogging({.level = ringmaster::LogLevel::kError});
  ringmaster::RedirectGrpcLog();
  ringmaster::ctl::SystemConsole console;
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  return ringmaster::ctl::RunCommandLine(args, console,
                                         ringmaster::Clock::Real());
}
