// Files of tests: fresh directories, contents, and a disk that is full.
#ifndef RINGMASTER_WORKER_FIGURES_TESTING_TESTING_FILES_H_
#define RINGMASTER_WORKER_FIGURES_TESTING_TESTING_FILES_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ringmaster {

// A new, empty directory.
inline std::string FreshDirectory() {
  std::string path = ::testing::TempDir() + "/XXXXXX";
  const char* made = mkdtemp(path.data());
  EXPECT_NE(made, nullptr);
  return path;
}

inline std::string ContentOf(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

inline void WriteContent(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// While it lives, this process cannot make a file larger than `bytes`: writes
// go wrong as on a full disk, first short and then with an error, for root too.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_TESTING_TESTING_FILES_H_
