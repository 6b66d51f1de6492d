// RM_CHECK: ends the process when one of our own invariants does not hold.
//
// For bugs of ours only. Input, flags, files, peers and disks fail with a
// Status instead.
//   RM_CHECK(IsRunning(), "Post after Stop");
#ifndef RINGMASTER_COMMON_STATUS_CHECK_H_
#define RINGMASTER_COMMON_STATUS_CHECK_H_

#include <string_view>

namespace ringmaster {

// Prints where and why to stderr, then aborts (so that a core is left).
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace ringmaster

// `message` is evaluated only when the check fails.
#define RM_CHECK(condition, message)                                        \
  do {                                                                      \
    if (!(condition)) [[unlikely]] {                                        \
      ::ringmaster::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
    }                                                                       \
  } while (false)

#endif  // RINGMASTER_COMMON_STATUS_CHECK_H_
