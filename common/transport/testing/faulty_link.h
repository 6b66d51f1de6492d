// FaultyLink passes frames on to another Link and hurts the k-th one it writes.
// For tests.
#ifndef RINGMASTER_COMMON_TRANSPORT_TESTING_FAULTY_LINK_H_
#define RINGMASTER_COMMON_TRANSPORT_TESTING_FAULTY_LINK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/transport/frame.h"
#include "common/transport/link.h"

namespace ringmaster {

struct LinkFault {
  enum class Kind {
    kNone,
    kDrop,            // the frame is swallowed
    kDelay,           // the frame and all after it wait for `delay`
    kClose,           // the link closes in place of the frame
    kCloseInPayload,  // the link closes after the frame's header
    kCorrupt,         // the frame's byte `corrupt_at` is inverted
  };
  Kind kind = Kind::kNone;
  int64_t at_frame = 1;
  absl::Duration delay = absl::Milliseconds(30);
  size_t corrupt_at = 0;
};

class FaultyLink final : public Link {
 public:
  FaultyLink(std::unique_ptr<Link> link, LinkFault fault, Clock& clock)
      : link_(std::move(link)), fault_(fault), clock_(clock) {}

  [[nodiscard]] absl::StatusOr<size_t> TryWrite(
      std::span<const iovec> parts) override;
  [[nodiscard]] absl::StatusOr<size_t> TryRead(
      std::span<const iovec> parts) override {
    return link_->TryRead(parts);
  }
  [[nodiscard]] absl::Status CheckPeer(MonotonicTime now) override {
    return link_->CheckPeer(now);
  }
  [[nodiscard]] int fd() const override { return link_->fd(); }
  void Close() override { link_->Close(); }
  [[nodiscard]] const std::string& peer() const override {
    return link_->peer();
  }

 private:
  [[nodiscard]] bool IsHurt() const { return frame_ == fault_.at_frame; }
  [[nodiscard]] bool IsDelayed();
  [[nodiscard]] absl::StatusOr<size_t> WriteHeader(
      std::span<const iovec> parts);
  [[nodiscard]] bool HasWhole() const {
    return header_done_ == kFrameHeaderBytes && body_done_ == body_bytes_;
  }
  [[nodiscard]] absl::StatusOr<size_t> WriteBody(std::span<const iovec> parts);
  [[nodiscard]] absl::StatusOr<size_t> CloseNow();

  std::unique_ptr<Link> link_;
  const LinkFault fault_;
  Clock& clock_;
  int64_t frame_ = 1;        // the one being written
  FrameHeaderBytes header_;  // as the writer gave it
  size_t header_done_ = 0;
  // The body is all that follows the header: checksums or tags, if any,
  // and payload.
  size_t body_done_ = 0;
  size_t body_bytes_ = 0;
  MonotonicTime release_at_;  // kDelay: once the frame has come
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_TESTING_FAULTY_LINK_H_
