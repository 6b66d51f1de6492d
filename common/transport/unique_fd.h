// UniqueFd owns a file descriptor and closes it. Thread-compatible.
#ifndef RINGMASTER_COMMON_TRANSPORT_UNIQUE_FD_H_
#define RINGMASTER_COMMON_TRANSPORT_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace ringmaster {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { Reset(); }

  // The descriptor, or -1 if none is owned.
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

  void Reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_UNIQUE_FD_H_
