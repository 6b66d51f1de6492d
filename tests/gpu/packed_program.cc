// A program for pack_test.py: it needs a shared library that the bundle must
// bring along.
#include <zlib.h>

#include <cstdio>

int main() {
  std::printf("zlib %s\n", zlibVersion());
  return 0;
}
