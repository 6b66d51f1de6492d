// Tests data sets of picture files: which samples they have, that these depend
// on seed, epoch and sample alone, and what is refused or left out.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/clock/clock.h"
#include "common/status/exit_code.h"
#include "common/transport/cancel_token.h"
#include "gtest/gtest.h"
#include "worker/data/dataset.h"
#include "worker/data/permutation_sampler.h"
#include "worker/data/prefetcher.h"
#include "worker/data/testing/data_files.h"
#include "worker/data/testing/picture_files.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr PictureSize kSize = {12, 16};

// A picture of one grey.
std::string Plain(uint8_t grey, PictureSize size = kSize) {
  return PngFile({size, 1,
                  std::vector<uint8_t>(
                      static_cast<size_t>(size.height * size.width), grey)});
}

class ImageFolderDatasetTest : public ::testing::Test {
 protected:
  // Grey samples of 2 x 2 pixels, of two classes.
  DataConfig Config() const {
    return {.kind = "image_folder",
            .shape = {.pixels = 4, .height = 2, .width = 2},
            .vocabulary = 2,
            .path = (directory_.path() / "train").string(),
            .eval_fraction = 0,
            .crop_area = 1};
  }
  // Of four files beneath two directories, and others that are none of them.
  void WriteFew() const {
    directory_.Write("train/cat/b.PNG", Plain(2));
    directory_.Write("train/cat/a.png", Plain(1));
    directory_.Write("train/cat/notes.txt", "of no account");
    directory_.Write("train/dog/deep/c.JpEg",
                     JpegFile({{16, 16}, 1, std::vector<uint8_t>(256, 3)},
                              {.quality = 100}));
    directory_.Write("train/dog/deep/d.jpg",
                     JpegFile({{16, 16}, 1, std::vector<uint8_t>(256, 4)},
                              {.quality = 100}));
    directory_.Write("train/README.png", Plain(9));
    directory_.Write("train/.hidden/e.png", Plain(9));
    directory_.Write("train/cat/.x/e.png", Plain(9));
    directory_.Write("train/cat/._a.jpg", "what a Mac leaves");
  }
  // Coloured ones with 3 channels of 8 x 8, for random crops.
  DataConfig RandomConfig() const {
    for (int i = 0; i < 6; ++i) {
      const std::string name =
          (i % 2 == 0 ? "train/a/" : "train/b/") + std::to_string(i);
      const Picture picture = SmoothPicture({70 + i, 90}, 3, i);
      directory_.Write(name + (i < 3 ? ".jpg" : ".png"),
                       i < 3 ? JpegFile(picture) : PngFile(picture));
    }
    DataConfig config = Config();
    config.shape = {.pixels = 192, .height = 8, .width = 8};
    config.crop_area = 0.08;
    return config;
  }
  static std::unique_ptr<Dataset> Make(const DataConfig& config) {
    auto dataset = CreateDataset(config);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *std::move(dataset);
  }
  static void ExpectRefused(const DataConfig& config, absl::StatusCode code,
                            const std::string& part) {
    ExpectError(CreateDataset(config).status(), code, part);
  }
  // First pixel and class of each sample, such as "1/0 2/0 ".
  static std::string Samples(const Dataset& dataset,
                             Split split = Split::kTrain) {
    Batch batch(1, dataset.shape());
    std::string samples;
    for (int64_t id = 0; id < dataset.size(split); ++id) {
      const absl::Status filled = dataset.FillBatch(split, {id}, batch);
      EXPECT_TRUE(filled.ok()) << filled;
      samples += std::to_string(batch.pixels()[0]) + "/" +
                 std::to_string(batch.targets()[0]) + " ";
    }
    return samples;
  }
  static std::vector<uint8_t> Pixels(const Dataset& dataset,
                                     const std::vector<int64_t>& ids,
                                     const std::vector<int64_t>& epochs) {
    Batch batch(static_cast<int64_t>(ids.size()), dataset.shape());
    const absl::Status filled = dataset.FillTraining(ids, epochs, batch);
    EXPECT_TRUE(filled.ok()) << filled;
    return {batch.pixels().begin(), batch.pixels().end()};
  }

  TestDirectory directory_;
};

TEST_F(ImageFolderDatasetTest, ClassesAndFilesAreInTheOrderOfNames) {
  WriteFew();
  const auto dataset = Make(Config());
  EXPECT_EQ(Samples(*dataset), "1/0 2/0 3/1 4/1 ");
  EXPECT_EQ(dataset->size(Split::kHeldOut), 0);
  EXPECT_EQ(dataset->skipped_samples(), 0);
}

TEST_F(ImageFolderDatasetTest, ALoopOfLinksIsPassedOver) {
  WriteFew();
  fs::create_directory_symlink(directory_.path() / "train",
                               directory_.path() / "train/cat/loop");
  fs::create_directory_symlink(directory_.path() / "train",
                               directory_.path() / "train/loop");
  fs::create_symlink(directory_.path() / "train/cat/a.png",
                     directory_.path() / "train/dog/link.png");
  EXPECT_EQ(Samples(*Make(Config())), "1/0 2/0 3/1 4/1 1/1 ");
}

TEST_F(ImageFolderDatasetTest, SamplesDependOnSeedEpochAndIdAlone) {
  DataConfig config = RandomConfig();
  const auto dataset = Make(config);
  const std::vector<uint8_t> base = Pixels(*dataset, {0, 3, 5}, {0, 0, 1});
  EXPECT_EQ(Pixels(*dataset, {0, 3, 5}, {0, 0, 1}), base);
  const auto sample = [&](size_t i) {
    return std::vector<uint8_t>(
        base.begin() + static_cast<int64_t>(i) * 192,
        base.begin() + static_cast<int64_t>(i + 1) * 192);
  };
  // Whatever else is in the batch.
  EXPECT_EQ(Pixels(*dataset, {5}, {1}), sample(2));
  EXPECT_NE(Pixels(*dataset, {5}, {0}), sample(2));
  config.decode_threads = 4;
  EXPECT_EQ(Pixels(*Make(config), {0, 3, 5}, {0, 0, 1}), base);
  config.seed = 2;
  EXPECT_NE(Pixels(*Make(config), {0, 3, 5}, {0, 0, 1}), base);
}

// Steps 1 to 5 of four samples are of four epochs.
TEST_F(ImageFolderDatasetTest, AnyNumberOfWorkersSeesTheSame) {
  DataConfig config = RandomConfig();
  const auto train = [&](int world_size) {
    const auto dataset = Make(config);
    const PermutationSampler sampler(config.seed, dataset->size(Split::kTrain));
    std::vector<uint8_t> pixels;
    for (int64_t step = 1; step <= 5; ++step) {
      for (int rank = 0; rank < world_size; ++rank) {
        Prefetcher prefetcher(*dataset, sampler,
                              {.global_batch = 4, .max_local_batch = 4},
                              Clock::Real());
        EXPECT_TRUE(prefetcher.Start(step, rank, world_size).ok());
        const absl::StatusOr<const Batch*> batch =
            prefetcher.Next(Clock::Real().Now() + absl::Seconds(60));
        EXPECT_TRUE(batch.ok()) << batch.status();
        pixels.insert(pixels.end(), (*batch)->pixels().begin(),
                      (*batch)->pixels().end());
      }
    }
    return pixels;
  };
  const std::vector<uint8_t> alone = train(1);
  EXPECT_EQ(train(3), alone);
  config.decode_threads = 3;
  EXPECT_EQ(train(2), alone);
  // Each epoch has other parts of a picture.
  const auto dataset = Make(config);
  std::set<std::vector<uint8_t>> parts;
  for (int64_t epoch = 0; epoch < 4; ++epoch)
    parts.insert(Pixels(*dataset, {2}, {epoch}));
  EXPECT_EQ(parts.size(), 4u);
}

TEST_F(ImageFolderDatasetTest, EverySecondPictureIsFlipped) {
  // Dark on the left, bright on the right.
  Picture picture = {{20, 20}, 1, {}};
  for (int i = 0; i < 400; ++i)
    picture.pixels.push_back(i % 20 < 10 ? 10 : 200);
  directory_.Write("train/a/x.png", PngFile(picture));
  directory_.Write("train/b/x.png", PngFile(picture));
  DataConfig config = Config();
  const auto count_flipped = [&](const Dataset& dataset) {
    int flipped = 0;
    for (int64_t epoch = 0; epoch < 1000; ++epoch)
      flipped += Pixels(dataset, {0}, {epoch})[0] > 100 ? 1 : 0;
    return flipped;
  };
  EXPECT_NEAR(count_flipped(*Make(config)), 500, 60);
  config.flip = false;
  EXPECT_EQ(count_flipped(*Make(config)), 0);
}

TEST_F(ImageFolderDatasetTest, EvaluationSeesTheMiddleAlways) {
  DataConfig config = RandomConfig();
  config.evaluation_path = config.path;
  config.evaluation_crop = 0.5;
  const auto dataset = Make(config);
  const auto first = Samples(*dataset, Split::kHeldOut);
  EXPECT_EQ(Samples(*dataset, Split::kHeldOut), first);
  config.seed = 2;
  EXPECT_EQ(Samples(*Make(config), Split::kHeldOut), first);
  config.evaluation_crop = 1;
  EXPECT_NE(Samples(*Make(config), Split::kHeldOut), first);
}

TEST_F(ImageFolderDatasetTest, ARandomPartIsHeldOut) {
  for (int i = 0; i < 20; ++i) {
    directory_.Write(
        (i < 10 ? "train/a/" : "train/b/") + std::to_string(i) + ".png",
        Plain(static_cast<uint8_t>(i)));
  }
  DataConfig config = Config();
  config.eval_fraction = 0.3;
  const auto parts = [&] {
    const auto dataset = Make(config);
    EXPECT_EQ(dataset->size(Split::kTrain), 14);
    EXPECT_EQ(dataset->size(Split::kHeldOut), 6);
    Batch batch(14, dataset->shape());
    std::multiset<int> all;
    std::string held_out;
    for (const Split split : {Split::kTrain, Split::kHeldOut}) {
      for (int64_t id = 0; id < dataset->size(split); ++id) {
        EXPECT_TRUE(dataset->FillBatch(split, {id}, batch).ok());
        EXPECT_EQ(batch.targets()[0], batch.pixels()[0] < 10 ? 0 : 1);
        all.insert(batch.pixels()[0]);
        if (split == Split::kHeldOut)
          held_out += std::to_string(batch.pixels()[0]) + " ";
      }
    }
    for (int i = 0; i < 20; ++i) EXPECT_EQ(all.count(i), 1u);
    return held_out;
  };
  const std::string held_out = parts();
  EXPECT_EQ(parts(), held_out);
  config.seed = 5;
  EXPECT_NE(parts(), held_out);
}

TEST_F(ImageFolderDatasetTest, DirectoriesMustBeTheModelsClasses) {
  DataConfig config = Config();
  ExpectRefused(config, absl::StatusCode::kNotFound, "data.path: cannot read ");
  fs::create_directories(config.path);
  ExpectRefused(config, kInvalid,
                "train has no subdirectories, which would be the classes");
  WriteFew();
  config.vocabulary = 3;
  ExpectRefused(config, kInvalid,
                "train has 2 subdirectories, from \"cat\" to \"dog\", but the "
                "model has 3 classes");
  fs::create_directories(directory_.path() / "train/emu/inside");
  ExpectRefused(config, kInvalid, "train/emu has no .jpg, .jpeg or .png files");
}

TEST_F(ImageFolderDatasetTest, HeldOutDirectoriesMustHaveTheSameNames) {
  WriteFew();
  DataConfig config = Config();
  config.evaluation_path = (directory_.path() / "held_out").string();
  directory_.Write("held_out/cat/a.png", Plain(1));
  ExpectRefused(config, kInvalid, "data.evaluation_path: ");
  ExpectRefused(config, kInvalid, "held_out has no subdirectory \"dog\", but ");
  directory_.Write("held_out/cow/a.png", Plain(1));
  ExpectRefused(config, kInvalid, "held_out has a subdirectory \"cow\", but ");
  fs::rename(directory_.path() / "held_out/cow",
             directory_.path() / "held_out/dog");
  EXPECT_EQ(Samples(*Make(config), Split::kHeldOut), "1/0 1/1 ");
}

TEST_F(ImageFolderDatasetTest, ModelsOfOtherPixelsAreRefused) {
  WriteFew();
  DataConfig config = Config();
  config.shape.pixels = 8;  // two channels
  ExpectRefused(config, kInvalid, "with 1 or 3 channels");
  config.shape = {.pixels = 4};
  ExpectRefused(config, kInvalid, "says their height and width");
}

TEST_F(ImageFolderDatasetTest, ADamagedFileIsNamedWhereItIsMet) {
  WriteFew();
  const std::string file = directory_.Write("train/dog/x.png", "no picture");
  const std::string other = directory_.Write(
      "train/dog/y.jpg", JpegFile(SmoothPicture({64, 64}, 3)).substr(0, 500));
  const auto dataset = Make(Config());
  Batch batch(6, dataset->shape());
  EXPECT_TRUE(dataset->FillBatch(Split::kTrain, {0, 1, 2}, batch).ok());
  // Of several, always the same.
  const absl::Status damaged =
      dataset->FillBatch(Split::kTrain, {0, 5, 4, 1}, batch);
  ExpectError(damaged, absl::StatusCode::kDataLoss,
              other + ": the JPEG is damaged: ");
  EXPECT_EQ(ExitCodeOf(damaged), ExitCode::kUnreadable);
  ExpectError(dataset->FillBatch(Split::kTrain, {4}, batch), kInvalid,
              file +
                  ": it is neither a JPEG nor a PNG picture; "
                  "\"corrupt_records: skip\" leaves out such samples");
  fs::remove(file);
  const absl::Status gone = dataset->FillBatch(Split::kTrain, {4}, batch);
  ExpectError(gone, absl::StatusCode::kNotFound, file);
  EXPECT_EQ(ExitCodeOf(gone), ExitCode::kUnreadable);
}

TEST_F(ImageFolderDatasetTest, DamagedFilesCanBeLeftOut) {
  WriteFew();
  directory_.Write("train/cat/aa.png", Plain(1).substr(0, 60));
  directory_.Write("train/dog/x.jpg", "no picture");
  DataConfig config = Config();
  config.skip_corrupt = true;
  config.decode_threads = 3;
  const auto dataset = Make(config);
  EXPECT_EQ(Samples(*dataset), "1/0 2/0 3/1 4/1 ");
  EXPECT_EQ(dataset->skipped_samples(), 2);
  fs::remove_all(directory_.path() / "train");
  directory_.Write("train/cat/a.png", "no picture");
  directory_.Write("train/dog/a.png", "no picture");
  ExpectRefused(config, absl::StatusCode::kFailedPrecondition,
                "has no picture to train on; 2 were left out");
}

// So that a job may go on with the others.
TEST_F(ImageFolderDatasetTest, AFileLeftOutMovesNoOtherOne) {
  for (int i = 0; i < 20; ++i) {
    directory_.Write(
        (i < 10 ? "train/a/" : "train/b/") + std::to_string(i) + ".png",
        Plain(static_cast<uint8_t>(i)));
  }
  DataConfig config = Config();
  config.eval_fraction = 0.3;
  const auto whole = Make(config);
  const std::string held_out = Samples(*whole, Split::kHeldOut);
  config.skip_corrupt = true;
  for (int i = 0; i < 20; ++i) {
    const std::string sample = std::to_string(i) + "/" + (i < 10 ? "0 " : "1 ");
    if ((" " + held_out).find(" " + sample) != std::string::npos) continue;
    const std::string name =
        (i < 10 ? "train/a/" : "train/b/") + std::to_string(i) + ".png";
    directory_.Write(name, "no picture");
    const auto rest = Make(config);
    EXPECT_EQ(rest->skipped_samples(), 1);
    EXPECT_EQ(rest->size(Split::kTrain), 13);
    EXPECT_EQ(Samples(*rest, Split::kHeldOut), held_out) << "without " << i;
    directory_.Write(name, Plain(static_cast<uint8_t>(i)));
  }
}

TEST_F(ImageFolderDatasetTest, FingerprintIsAlsoOfWhatIsLeftOut) {
  WriteFew();
  DataConfig config = Config();
  const uint64_t whole = Make(config)->fingerprint();
  const std::string hash = Make(config)->identity().SerializeAsString();
  config.skip_corrupt = true;
  EXPECT_EQ(Make(config)->fingerprint(), whole);
  EXPECT_EQ(Make(config)->identity().SerializeAsString(), hash);
  // Of the same size.
  std::string damaged = Plain(1);
  damaged[damaged.size() / 2] ^= 1;
  directory_.Write("train/cat/a.png", damaged);
  const auto first = Make(config);
  EXPECT_EQ(first->skipped_samples(), 1);
  EXPECT_NE(first->fingerprint(), whole);
  EXPECT_NE(first->identity().SerializeAsString(), hash);
  const auto again = Make(config);
  EXPECT_EQ(again->fingerprint(), first->fingerprint());
  EXPECT_EQ(again->identity().SerializeAsString(),
            first->identity().SerializeAsString());
  // Another file.
  directory_.Write("train/cat/a.png", Plain(1));
  damaged = Plain(2);
  damaged[damaged.size() / 2] ^= 1;
  directory_.Write("train/cat/b.PNG", damaged);
  const auto other = Make(config);
  EXPECT_EQ(other->skipped_samples(), 1);
  EXPECT_NE(other->fingerprint(), whole);
  EXPECT_NE(other->fingerprint(), first->fingerprint());
}

// It might be a sample at another rank, where it can be read.
TEST_F(ImageFolderDatasetTest, AFileThatCannotBeReadIsNotLeftOut) {
  WriteFew();
  const std::string path = directory_.Write("train/cat/huge.png", "");
  fs::resize_file(path, (uint64_t{1} << 28) + 1);
  DataConfig config = Config();
  config.skip_corrupt = true;
  ExpectRefused(config, kInvalid, path + ": it has 268435457 bytes");
}

TEST_F(ImageFolderDatasetTest, FingerprintIsOfNamesAndSizes) {
  WriteFew();
  const uint64_t base = Make(Config())->fingerprint();
  const v1::DataIdentity identity = Make(Config())->identity();
  ASSERT_EQ(identity.parts_size(), 4);
  EXPECT_EQ(identity.parts(0).first_file(),
            (directory_.path() / "train/cat/a.png").string());
  EXPECT_EQ(identity.parts(0).size_bytes(),
            static_cast<int64_t>(Plain(1).size()));
  // Wherever they are.
  fs::rename(directory_.path() / "train", directory_.path() / "elsewhere");
  DataConfig moved = Config();
  moved.path = (directory_.path() / "elsewhere").string();
  EXPECT_EQ(Make(moved)->fingerprint(), base);
  EXPECT_EQ(Make(moved)->identity().parts(0).hash(), identity.parts(0).hash());
  fs::rename(directory_.path() / "elsewhere/cat/a.png",
             directory_.path() / "elsewhere/cat/aa.png");
  EXPECT_NE(Make(moved)->fingerprint(), base);
  fs::rename(directory_.path() / "elsewhere/cat/aa.png",
             directory_.path() / "elsewhere/cat/a.png");
  EXPECT_EQ(Make(moved)->fingerprint(), base);
  directory_.Write("elsewhere/cat/a.png", Plain(1, {13, 17}));
  EXPECT_NE(Make(moved)->fingerprint(), base);
}

// Checking all would take seconds.
TEST_F(ImageFolderDatasetTest, CheckingEndsWhenItIsCancelled) {
  directory_.Write("train/dog/a.png", Plain(1));
  const std::string large = directory_.Write(
      "train/cat/0.png",
      PngFile(SmoothPicture({1500, 1500}, 1), {.is_interlaced = true}));
  for (int i = 1; i < 200; ++i) {
    fs::create_symlink(
        large, directory_.path() / "train/cat" / (std::to_string(i) + ".png"));
  }
  DataConfig config = Config();
  config.skip_corrupt = true;
  CancelToken cancel;
  // By then they should be listed.
  std::thread canceller([&cancel] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    cancel.Cancel("halted");
  });
  ExpectError(CreateDataset(config, &cancel).status(),
              absl::StatusCode::kAborted, "halted");
  canceller.join();
}

TEST_F(ImageFolderDatasetTest, ListingEndsWhenItIsCancelled) {
  WriteFew();
  CancelToken cancel;
  cancel.Cancel("halted");
  ExpectError(CreateDataset(Config(), &cancel).status(),
              absl::StatusCode::kAborted, "halted");
}

}  // namespace
}  // namespace ringmaster
