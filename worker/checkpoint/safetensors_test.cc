#include "worker/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/checkpoint/testing/test_files.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename T>
absl::Span<const uint8_t> BytesOf(const std::vector<T>& values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(T));
}

template <typename T>
std::string TextOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

absl::Status WriteAll(const std::string& path,
                      absl::Span<const TensorBytes> tensors,
                      const SafetensorsMetadata& metadata = {}) {
  absl::StatusOr<DurableFile> file = DurableFile::Create(path);
  if (!file.ok()) return file.status();
  const absl::Status status = WriteSafetensors(tensors, metadata, *file);
  return status.ok() ? file->Close().status() : status;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  // Returns the error of Open for a file of this header and these bytes.
  absl::Status OpenError(std::string_view header, std::string_view bytes) {
    return OpenErrorOfText(SafetensorsText(header, bytes));
  }
  absl::Status OpenErrorOfText(std::string_view text) {
    WriteFile(path_, text);
    const absl::Status status = SafetensorsFile::Open(path_).status();
    EXPECT_THAT(status.message(), HasSubstr(path_));
    EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
    return status;
  }
  void ExpectDataLoss(std::string_view header, std::string_view bytes,
                      const std::string& words) {
    const absl::Status status = OpenError(header, bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(words));
  }
  // The floats of the one tensor, "x", of this dtype and these bytes.
  std::vector<float> FloatsOf(const std::string& dtype, size_t count,
                              const std::string& bytes) {
    WriteFile(path_, SafetensorsText(absl::StrCat(R"({"x":{"dtype":")", dtype,
                                                  R"(","shape":[)", count,
                                                  R"(],"data_offsets":[0,)",
                                                  bytes.size(), "]}}"),
                                     bytes));
    const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<float> floats(count);
    const absl::Status status =
        file->ReadFloats(*file->Find("x"), 0, absl::MakeSpan(floats));
    EXPECT_TRUE(status.ok()) << status;
    return floats;
  }

  const std::string path_ = FreshDirectory() + "/file.safetensors";
};

TEST_F(SafetensorsTest, ReadsWhatItWrote) {
  const std::vector<float> weight = {1, -2, 3.5, 0, 5, 6};
  const std::vector<int64_t> ids = {-7, int64_t{1} << 40};
  const std::vector<uint8_t> bytes = {1, 2, 255};
  const std::vector<float> scalar = {42};
  ASSERT_TRUE(WriteAll(path_,
                       {{"b.weight", DType::kFloat32, {2, 3}, BytesOf(weight)},
                        {"ids", DType::kInt64, {2}, BytesOf(ids)},
                        {"a", DType::kUint8, {3}, BytesOf(bytes)},
                        {"none", DType::kFloat32, {0, 4}, {}},
                        {"scalar", DType::kFloat32, {}, BytesOf(scalar)}},
                       {{"format", "pt"}, {"quote", "\"\n"}})
                  .ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 5u);
  EXPECT_EQ(file->tensors()[0].name, "b.weight");
  EXPECT_EQ(file->tensors()[0].ShapeText(), "[2,3]");
  EXPECT_TRUE(file->tensors()[0].HasShape({2, 3}));
  EXPECT_FALSE(file->tensors()[0].HasShape({3, 2}));
  EXPECT_FALSE(file->tensors()[0].HasShape({2, 3, 1}));
  EXPECT_EQ(file->tensors()[1].dtype, "I64");
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->metadata().at("quote"), "\"\n");
  EXPECT_EQ(file->Find("b.weigh"), nullptr);

  std::vector<float> read(6);
  ASSERT_TRUE(
      file->ReadFloats(*file->Find("b.weight"), 0, absl::MakeSpan(read)).ok());
  EXPECT_EQ(read, weight);
  std::vector<int64_t> read_ids(2);
  ASSERT_TRUE(
      file->ReadBytes(
              *file->Find("ids"),
              absl::MakeSpan(reinterpret_cast<uint8_t*>(read_ids.data()), 16))
          .ok());
  EXPECT_EQ(read_ids, ids);
  EXPECT_EQ(file->Find("none")->num_elems, 0);
  EXPECT_EQ(file->Find("scalar")->num_elems, 1);
}

// The bytes are those of the format's description: our own reader's word would
// not do.
TEST_F(SafetensorsTest, WritesTheFormat) {
  const std::vector<float> values = {1, 2};
  ASSERT_TRUE(
      WriteAll(path_, {{"x", DType::kFloat32, {1, 2}, BytesOf(values)}}).ok());
  const std::string content = ReadFile(path_);
  std::string header =
      R"({"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(content, SafetensorsText(header, TextOf(values)));
}

TEST_F(SafetensorsTest, ReadsAPartOfATensor) {
  std::vector<float> values(10);
  for (int i = 0; i < 10; ++i) values[i] = static_cast<float>(i);
  ASSERT_TRUE(
      WriteAll(path_, {{"x", DType::kFloat32, {10}, BytesOf(values)}}).ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok());
  std::vector<float> part(3);
  ASSERT_TRUE(file->ReadFloats(*file->Find("x"), 4, absl::MakeSpan(part)).ok());
  EXPECT_THAT(part, ElementsAre(4, 5, 6));
}

TEST_F(SafetensorsTest, ConvertsHalves) {
  const std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff,
                                        0x7c00, 0xfc00, 0x03ff, 0x3555};
  const std::vector<float> floats = FloatsOf("F16", 9, TextOf(halves));
  EXPECT_EQ(floats[0], 1.0f);
  EXPECT_EQ(floats[1], -2.0f);
  EXPECT_EQ(floats[2], std::ldexp(1.0f, -24));
  EXPECT_EQ(floats[3], 0.0f);
  EXPECT_TRUE(std::signbit(floats[3]));
  EXPECT_EQ(floats[4], 65504.0f);
  EXPECT_EQ(floats[5], std::numeric_limits<float>::infinity());
  EXPECT_EQ(floats[6], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(floats[7], std::ldexp(1023.0f, -24));
  EXPECT_EQ(floats[8], 0.333251953125f);
  EXPECT_TRUE(
      std::isnan(FloatsOf("F16", 1, TextOf(std::vector<uint16_t>{0x7e00}))[0]));
}

TEST_F(SafetensorsTest, ConvertsBFloat16AndDouble) {
  EXPECT_THAT(FloatsOf("BF16", 3,
                       TextOf(std::vector<uint16_t>{0x3f80, 0xc040, 0x7f80})),
              ElementsAre(1.0f, -3.0f, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(FloatsOf("F64", 2, TextOf(std::vector<double>{0.1, -1e300})),
              ElementsAre(0.1f, -std::numeric_limits<float>::infinity()));
}

// More than one piece of the conversion.
TEST_F(SafetensorsTest, ConvertsLongTensors) {
  constexpr size_t kCount = (size_t{1} << 19) + 77;
  std::vector<uint16_t> halves(kCount);
  for (size_t i = 0; i < kCount; ++i)
    halves[i] = static_cast<uint16_t>(i & 0x7f7f);
  const std::vector<float> floats = FloatsOf("BF16", kCount, TextOf(halves));
  for (size_t i = 0; i < kCount; ++i) {
    const uint32_t bits = static_cast<uint32_t>(halves[i]) << 16;
    ASSERT_EQ(std::memcmp(&floats[i], &bits, sizeof(bits)), 0) << i;
  }
}

TEST_F(SafetensorsTest, RefusesIntegersAsFloats) {
  const std::vector<int32_t> values = {1};
  ASSERT_TRUE(
      WriteAll(path_, {{"x", DType::kInt32, {1}, BytesOf(values)}}).ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok());
  float into = 0;
  const absl::Status status =
      file->ReadFloats(*file->Find("x"), 0, absl::MakeSpan(&into, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(path_), HasSubstr("\"x\""), HasSubstr("I32")));
}

TEST_F(SafetensorsTest, DoesNotWriteWrongTensors) {
  const std::vector<float> values = {1, 2};
  const TensorBytes good = {"x", DType::kFloat32, {2}, BytesOf(values)};
  for (const std::vector<TensorBytes>& tensors :
       {std::vector<TensorBytes>{good, good},
        {{"x", DType::kFloat32, {3}, BytesOf(values)}},
        {{"__metadata__", DType::kFloat32, {2}, BytesOf(values)}}}) {
    std::filesystem::remove(path_);
    const absl::Status status = WriteAll(path_, tensors);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(tensors[0].name));
  }
}

TEST_F(SafetensorsTest, NoticesACutFile) {
  const std::vector<float> values(100, 1.0f);
  ASSERT_TRUE(
      WriteAll(path_, {{"x", DType::kFloat32, {100}, BytesOf(values)}}).ok());
  const std::string content = ReadFile(path_);
  for (const size_t length :
       {size_t{0}, size_t{7}, size_t{8}, size_t{30}, content.size() - 1}) {
    const absl::Status status =
        OpenErrorOfText(std::string_view(content).substr(0, length));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_THAT(status.message(), HasSubstr("is cut short"));
  }
  EXPECT_THAT(OpenErrorOfText(content.substr(0, content.size() - 1)).message(),
              HasSubstr("tensor \"x\""));
  EXPECT_THAT(OpenErrorOfText(content + "y").message(),
              HasSubstr("1 bytes follow the last tensor"));
}

TEST_F(SafetensorsTest, NoticesAFileThatShrinksWhileOpen) {
  const std::vector<float> values(100, 1.0f);
  ASSERT_TRUE(
      WriteAll(path_, {{"x", DType::kFloat32, {100}, BytesOf(values)}}).ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path_, 200);
  std::vector<float> into(100);
  EXPECT_EQ(file->ReadFloats(*file->Find("x"), 0, absl::MakeSpan(into)).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(SafetensorsTest, NoticesAHeaderThatIsTooLong) {
  const uint64_t length = uint64_t{1} << 40;
  const absl::Status status = OpenErrorOfText(
      std::string(reinterpret_cast<const char*>(&length), 8) + "{}");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("100000000"));
}

TEST_F(SafetensorsTest, NoticesMalformedHeaders) {
  const std::string deep(200'000, '[');
  for (const std::string& header :
       {std::string(""), std::string("[]"), std::string(" {}"),
        std::string("{"), std::string("{\"x\":"), std::string("{} {}"),
        "{\"x\":" + deep, std::string("{\"\xff\":1}")}) {
    ExpectDataLoss(header, "", "is not that of safetensors");
  }
  ExpectDataLoss(R"({"x":1})", "", "tensor \"x\" is not an object");
  ExpectDataLoss(R"({"x":{"shape":[],"data_offsets":[0,4]}})", "abcd",
                 "\"x\" has no dtype");
  ExpectDataLoss(R"({"x":{"dtype":"F32","data_offsets":[0,4]}})", "abcd",
                 "\"x\" has no shape");
  for (const std::string shape :
       {"[-1]", "[1.0]", "[\"1\"]", "1", "[18446744073709551615]"}) {
    ExpectDataLoss(absl::StrCat(R"({"x":{"dtype":"F32","shape":)", shape,
                                R"(,"data_offsets":[0,4]}})"),
                   "abcd", "\"x\" has no shape");
  }
  for (const std::string offsets :
       {"[4,0]", "[0]", "[0,4,8]", "[-4,0]", "null", "[0,4e0]"}) {
    ExpectDataLoss(
        absl::StrCat(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":)",
                     offsets, "}}"),
        "abcd", "\"x\" has no data_offsets");
  }
  ExpectDataLoss(R"({"__metadata__":{"a":1}})", "", "__metadata__");
  ExpectDataLoss(R"({"__metadata__":[]})", "", "__metadata__");
}

TEST_F(SafetensorsTest, ATensorHasSoManyDimensionsAtMost) {
  const std::vector<int> ones(65, 1);
  ExpectDataLoss(
      absl::StrCat(R"({"x":{"dtype":"F32","shape":[)", absl::StrJoin(ones, ","),
                   R"(],"data_offsets":[0,4]}})"),
      "abcd", "\"x\" has 65 dimensions, more than 64");
}

TEST_F(SafetensorsTest, NoticesOffsetsThatDoNotFitTheShape) {
  ExpectDataLoss(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
                 "abcd", "\"x\" has 4 bytes, but F32 [2] takes 8");
  ExpectDataLoss(R"({"x":{"dtype":"F64","shape":[4611686018427387904,4],)"
                 R"("data_offsets":[0,0]}})",
                 "", "takes too many");
}

TEST_F(SafetensorsTest, NoticesOffsetsThatDoNotTileTheFile) {
  const std::string x =
      R"("x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const auto y = [](int begin, int end) {
    return absl::StrCat(R"(,"y":{"dtype":"U8","shape":[)", end - begin,
                        R"(],"data_offsets":[)", begin, ",", end, "]}");
  };
  ExpectDataLoss("{" + x + y(2, 6) + "}", "abcdef",
                 "\"y\" begins at byte 2 of the tensors, where 4 is expected: "
                 "tensors overlap");
  ExpectDataLoss("{" + x + y(6, 8) + "}", "abcdefgh", "there is a gap");
  ExpectDataLoss("{" + x + y(4, 9) + "}", "abcdefgh",
                 "is cut short: tensor \"y\"");
}

TEST_F(SafetensorsTest, NoticesRepeatedNames) {
  const std::string x =
      R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  ExpectDataLoss("{" + x + "," + x + "}", "a", "\"x\" comes twice");
  ExpectDataLoss(
      R"({"x":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
      "a", "\"dtype\" comes twice");
  // The same member in two tensors is not a repetition.
  WriteFile(path_, SafetensorsText("{" + x +
                                       R"(,"y":{"dtype":"U8","shape":[1],)"
                                       R"("data_offsets":[1,2]}})",
                                   "ab"));
  EXPECT_TRUE(SafetensorsFile::Open(path_).ok());
}

TEST_F(SafetensorsTest, NamesAnUnknownDtype) {
  const absl::Status status = OpenError(
      R"({"x":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "abcd");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("tensor \"x\""), HasSubstr("\"F33\"")));
}

TEST_F(SafetensorsTest, KeepsStrangeNamesOnOneLine) {
  const std::string name(1000, 'n');
  const absl::Status status = OpenError("{\"a\\n" + name + "\":1}", "");
  EXPECT_THAT(status.message(), HasSubstr("\"a\\nnnn"));
  EXPECT_LT(status.message().size(), path_.size() + 400);
}

TEST_F(SafetensorsTest, NamesAPathThatIsNoFile) {
  EXPECT_EQ(SafetensorsFile::Open(path_).status().code(),
            absl::StatusCode::kNotFound);
  const std::string directory = FreshDirectory();
  EXPECT_EQ(SafetensorsFile::Open(directory).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::string pipe = directory + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(SafetensorsFile::Open(pipe).status().message(),
              HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace ringmaster
