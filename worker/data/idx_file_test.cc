#include "worker/data/idx_file.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/data/testing/data_files.h"

namespace ringmaster {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr int64_t kMaxBytes = 1 << 24;

class IdxFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<IdxImages> Images(const std::string& contents,
                                   int64_t max_bytes = kMaxBytes) const {
    return ReadIdxImages(directory_.Write("images", contents), max_bytes,
                         /*cancel=*/nullptr);
  }
  absl::StatusOr<std::vector<uint8_t>> Labels(
      const std::string& contents, int64_t max_bytes = kMaxBytes) const {
    return ReadIdxLabels(directory_.Write("labels", contents), max_bytes,
                         /*cancel=*/nullptr);
  }
  void ExpectImagesRefused(const std::string& contents,
                           const std::string& part) const {
    ExpectError(Images(contents).status(), kInvalid, part);
    ExpectError(Images(contents).status(), kInvalid, "images: ");
  }

  TestDirectory directory_;
  const std::string pixels_{"abcdefghij\xff\0", 12};
  const std::string images_ = IdxImagesFile(2, 3, 2, pixels_);
};

TEST_F(IdxFileTest, ReadsImagesPlainAndCompressed) {
  for (const std::string& contents : {images_, Gzip(images_)}) {
    const auto images = Images(contents);
    ASSERT_TRUE(images.ok()) << images.status();
    EXPECT_EQ(images->count, 2);
    EXPECT_EQ(images->height, 3);
    EXPECT_EQ(images->width, 2);
    EXPECT_EQ(std::string(images->pixels.begin(), images->pixels.end()),
              pixels_);
  }
}

TEST_F(IdxFileTest, ReadsLabelsPlainAndCompressed) {
  const std::string file = IdxLabelsFile(std::string("\0\x09\xff", 3));
  for (const std::string& contents : {file, Gzip(file)}) {
    const auto labels = Labels(contents);
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_EQ(*labels, (std::vector<uint8_t>{0, 9, 255}));
  }
}

TEST_F(IdxFileTest, ReadsMoreThanOnePiece) {
  std::string labels((1 << 20) * 2 + 77, 'x');
  labels.back() = 'y';
  for (const std::string& contents :
       {IdxLabelsFile(labels), Gzip(IdxLabelsFile(labels))}) {
    const auto read = Labels(contents);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(std::string(read->begin(), read->end()) == labels);
  }
}

TEST_F(IdxFileTest, RefusesAnotherMagic) {
  ExpectImagesRefused("\x89PNG............",
                      "begins with 0x89504e47, but IDX images begin with "
                      "0x00000803");
  ExpectImagesRefused(IdxLabelsFile("abcdefghijk"),
                      "are images and labels swapped?");
  ExpectError(Labels(images_).status(), kInvalid,
              "begins with 0x00000803, but IDX labels begin with 0x00000801; "
              "it is an images file");
  ExpectImagesRefused(Gzip(Gzip(images_)), "gzip file inside gzip");
  ExpectImagesRefused("PK\x03\x04............", "zip file");
}

TEST_F(IdxFileTest, RefusesFilesCutShort) {
  ExpectImagesRefused(images_.substr(0, 20),
                      "expected 12 bytes for 2 images of 3 x 2, but 4 follow "
                      "the header");
  ExpectImagesRefused(Gzip(images_.substr(0, 20)), "but 4 follow the header");
  ExpectImagesRefused(images_.substr(0, 9),
                      "has 9 bytes, but an IDX header has 16");
  ExpectImagesRefused("", "has 0 bytes");
  ExpectError(Labels(IdxLabelsFile("abc").substr(0, 9)).status(), kInvalid,
              "expected 3 bytes for 3 labels, but 1 follow the header");
}

TEST_F(IdxFileTest, RefusesBytesTooMany) {
  ExpectImagesRefused(images_ + "!!", "but 14 follow the header");
  ExpectImagesRefused(Gzip(images_ + "!!"), "but more follow the header");
}

TEST_F(IdxFileTest, RefusesSizesThatCannotBe) {
  ExpectImagesRefused(IdxImagesFile(0, 3, 2, ""), "no contents");
  ExpectImagesRefused(IdxImagesFile(2, 3, 0, ""), "no contents");
  // The product is 2^96, or 0 in 64 bits.
  ExpectImagesRefused(IdxImagesFile(1u << 31, 1u << 31, 1u << 31, ""),
                      "more than the 16777216 that are allowed");
  ExpectImagesRefused(IdxImagesFile(0xffffffff, 0xffffffff, 0xffffffff, ""),
                      "more than");
  ExpectError(Images(images_, 11).status(), kInvalid,
              "2 times 6 bytes, which is more than the 11 that are allowed");
  EXPECT_TRUE(Images(images_, 12).ok());
}

TEST_F(IdxFileTest, RefusesDamagedCompression) {
  const std::string whole = Gzip(images_);
  std::string wrong_sum = whole;
  wrong_sum[whole.size() - 8] ^= 1;
  ExpectError(Images(wrong_sum).status(), absl::StatusCode::kDataLoss,
              "damaged gzip data");
  ExpectError(Images(whole.substr(0, whole.size() - 12)).status(),
              absl::StatusCode::kDataLoss, "images: damaged gzip data");
}

TEST_F(IdxFileTest, RefusesWhatIsNoReadableFile) {
  ExpectError(ReadIdxImages("/nowhere/x", kMaxBytes, nullptr).status(),
              absl::StatusCode::kNotFound, "/nowhere/x");
  ExpectError(ReadIdxLabels(directory_.path(), kMaxBytes, nullptr).status(),
              kInvalid, "not a regular file");
}

TEST_F(IdxFileTest, ReadingEndsWhenItIsCancelled) {
  CancelToken cancel;
  cancel.Cancel("halted");
  ExpectError(
      ReadIdxImages(directory_.Write("images", images_), kMaxBytes, &cancel)
          .status(),
      absl::StatusCode::kAborted, "halted");
}

}  // namespace
}  // namespace ringmaster
