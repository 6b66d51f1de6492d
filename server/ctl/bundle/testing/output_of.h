// OutputOf runs a command of the shell for a test: `tar` is the judge of whether
// an archive is one.
#ifndef RINGMASTER_SERVER_CTL_BUNDLE_TESTING_OUTPUT_OF_H_
#define RINGMASTER_SERVER_CTL_BUNDLE_TESTING_OUTPUT_OF_H_

#include <cstdio>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster::ctl {

// What `command` prints; fails the test unless it ends with 0.
inline std::string OutputOf(const std::string& command) {
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot run " << command;
    return "";
  }
  std::string output;
  char buffer[4096];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0)
    output.append(buffer, count);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return output;
}

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_BUNDLE_TESTING_OUTPUT_OF_H_
