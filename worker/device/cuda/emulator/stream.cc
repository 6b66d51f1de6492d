#include "worker/device/cuda/emulator/stream.h"

#include <utility>

#include "common/status/check.h"

namespace ringmaster::cuda_emulator {

Stream::Stream(int device, bool is_blocking)
    : device_(device), is_blocking_(is_blocking), thread_([this] { Run(); }) {}

Stream::~Stream() {
  {
    MutexLock lock(mutex_);
    is_closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

uint64_t Stream::Submit(std::function<void()> work) {
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
    number = ++submitted_;
  }
  changed_.NotifyAll();
  return number;
}

uint64_t Stream::submitted() const {
  MutexLock lock(mutex_);
  return submitted_;
}

bool Stream::IsDone(uint64_t number) const {
  MutexLock lock(mutex_);
  return done_ >= number;
}

void Stream::Await(uint64_t number) const {
  MutexLock lock(mutex_);
  while (done_ < number) changed_.Wait(mutex_);
}

void Stream::Run() {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !is_closing_) changed_.Wait(mutex_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
    work = nullptr;
    {
      MutexLock lock(mutex_);
      ++done_;
    }
    changed_.NotifyAll();
  }
}

void Mark::Bind(std::shared_ptr<Stream> stream, uint64_t number) {
  stream_ = std::move(stream);
  number_ = number;
}

void Mark::Reach() {
  {
    MutexLock lock(mutex_);
    is_reached_ = true;
    time_ = std::chrono::steady_clock::now();
  }
  reached_.NotifyAll();
}

bool Mark::IsReached() const {
  if (stream_ != nullptr) return stream_->IsDone(number_);
  MutexLock lock(mutex_);
  return is_reached_;
}

void Mark::Await() const {
  if (stream_ != nullptr) return stream_->Await(number_);
  MutexLock lock(mutex_);
  while (!is_reached_) reached_.Wait(mutex_);
}

std::chrono::steady_clock::time_point Mark::time() const {
  MutexLock lock(mutex_);
  RM_CHECK(is_reached_, "the time of a mark that is not reached");
  return time_;
}

}  // namespace ringmaster::cuda_emulator
