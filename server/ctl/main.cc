// The `ringctl` binary.
#include <string>
#include <vector>

#include "common/clock/clock.h"
#include "common/logging/logging.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/openssl_exit.h"
#include "server/ctl/commands/command_line.h"
#include "server/ctl/terminal/console.h"
#include "server/ctl/terminal/interrupts.h"

int main(int argc, char** argv) {
  ringmaster::KeepOpenSslAtExit();
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
