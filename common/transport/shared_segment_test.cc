#include "common/transport/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 10000;

UniqueFd Copy(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

SharedSegment SomeSegment() {
  absl::StatusOr<SharedSegment> segment =
      SharedSegment::Create("ringmaster test", kBytes);
  EXPECT_TRUE(segment.ok()) << segment.status();
  return *std::move(segment);
}

TEST(SharedSegmentTest, AReaderSeesWhatTheOwnerWrites) {
  const SharedSegment segment = SomeSegment();
  absl::StatusOr<PeerSegment> view =
      PeerSegment::Map(Copy(segment.fd()), kBytes);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->bytes(), kBytes);
  EXPECT_EQ(view->at()[kBytes - 1], std::byte{0});
  segment.at()[kBytes - 1] = std::byte{7};
  EXPECT_EQ(view->at()[kBytes - 1], std::byte{7});
}

TEST(SharedSegmentTest, NobodyElseCanWriteOrResizeIt) {
  const SharedSegment segment = SomeSegment();
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                 segment.fd(), 0),
            MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(pwrite(segment.fd(), "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(segment.fd(), 0), -1);
  EXPECT_EQ(ftruncate(segment.fd(), 2 * kBytes), -1);
  EXPECT_EQ(fallocate(segment.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, 4096),
            -1);
  EXPECT_EQ(fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  // A reader cannot make its mapping writable either.
  const absl::StatusOr<PeerSegment> view =
      PeerSegment::Map(Copy(segment.fd()), kBytes);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(mprotect(const_cast<std::byte*>(view->at()), kBytes,
                     PROT_READ | PROT_WRITE),
            -1);
}

TEST(SharedSegmentTest, OutlivesItsOwnerInItsReaders) {
  absl::StatusOr<PeerSegment> view = absl::UnknownError("");
  {
    const SharedSegment segment = SomeSegment();
    segment.at()[0] = std::byte{9};
    view = PeerSegment::Map(Copy(segment.fd()), kBytes);
  }
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->at()[0], std::byte{9});
}

TEST(SharedSegmentTest, KnowsWhatLiesInside) {
  const SharedSegment segment = SomeSegment();
  const std::byte* const at = segment.at();
  EXPECT_TRUE(segment.Contains(at, kBytes));
  EXPECT_TRUE(segment.Contains(at + kBytes, 0));
  EXPECT_FALSE(segment.Contains(at + 1, kBytes));
  EXPECT_FALSE(segment.Contains(at - 1, 1));
  EXPECT_FALSE(segment.Contains(at + 1, SIZE_MAX));
  EXPECT_FALSE(segment.Contains(nullptr, 1));
}

TEST(SharedSegmentTest, SaysThatTheHostRefusesTheMemory) {
  const absl::Status status =
      SharedSegment::Create("too large", size_t{1} << 60).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("1152921504606846976 bytes of shared memory are not"));
}

TEST(SharedSegmentTest, RefusesADescriptorThatIsNoMemfd) {
  const absl::Status file =
      PeerSegment::Map(UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)),
                       1)
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(file)) << file;
  EXPECT_THAT(file.message(), HasSubstr("is no memfd"));
  EXPECT_THAT(PeerSegment::Map(UniqueFd(), 1).status().message(),
              HasSubstr("is no memfd"));
}

TEST(SharedSegmentTest, RefusesAMemfdWithoutTheSeals) {
  for (const int seals : {0, F_SEAL_SHRINK | F_SEAL_GROW}) {
    UniqueFd fd(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(fd.get(), kBytes), 0);
    ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    const absl::Status status =
        PeerSegment::Map(std::move(fd), kBytes).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("has seals"));
  }
}

TEST(SharedSegmentTest, RefusesAMemfdSmallerThanAnnounced) {
  const SharedSegment segment = SomeSegment();
  const absl::Status status =
      PeerSegment::Map(Copy(segment.fd()), kBytes + 1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("has 10000 bytes; 10001 were announced"));
}

}  // namespace
}  // namespace ringmaster
