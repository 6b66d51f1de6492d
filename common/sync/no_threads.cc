// The pthread_create of a test whose rule does not say that it starts threads
// (rm_cc_test, third_party/defs.bzl): such a test is left out where ThreadSanitizer
// runs, and one that starts a thread all the same must not pass unnoticed. It takes
// the C library's place in the test's program, also for the libraries it links.

#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" int pthread_create(pthread_t*, const pthread_attr_t*,
                              void* (*)(void*), void*) noexcept {
  std::fputs(
      "error: this test starts a thread: its rule must say threads = True, so that "
      "ThreadSanitizer runs it\n",
      stderr);
  std::abort();
}
