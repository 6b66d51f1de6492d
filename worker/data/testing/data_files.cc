#include "worker/data/testing/data_files.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/strings/str_format.h"
#include "common/status/check.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

void AppendBigEndian(uint32_t value, std::string& bytes) {
  for (const int shift : {24, 16, 8, 0})
    bytes.push_back(static_cast<char>(value >> shift));
}

}  // namespace

TestDirectory::TestDirectory() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  path_ = fs::path(::testing::TempDir()) /
          (std::string(test->test_suite_name()) + "." + test->name() + "." +
           std::to_string(getpid()));
  fs::remove_all(path_);
  fs::create_directories(path_);
}

TestDirectory::~TestDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TestDirectory::Write(const std::string& relative,
                                 std::string_view contents) const {
  const fs::path file = path_ / relative;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << contents;
  return file.string();
}

void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const std::string& part) {
  EXPECT_EQ(status.code(), code) << status;
  const std::string message(status.message());
  EXPECT_NE(message.find(part), std::string::npos) << status;
  EXPECT_EQ(message.find('\n'), std::string::npos) << status;
}

std::string RawTokens(const std::vector<uint16_t>& tokens) {
  std::string bytes(tokens.size() * sizeof(uint16_t), '\0');
  if (!tokens.empty()) std::memcpy(bytes.data(), tokens.data(), bytes.size());
  return bytes;
}

std::string LlmCHeader(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return {reinterpret_cast<const char*>(header.data()),
          header.size() * sizeof(int32_t)};
}

std::string LlmCTokens(const std::vector<uint16_t>& tokens) {
  return LlmCHeader(20240520, 1, static_cast<int32_t>(tokens.size())) +
         RawTokens(tokens);
}

std::string IdxImagesFile(uint32_t count, uint32_t height, uint32_t width,
                          std::string_view pixels) {
  std::string bytes;
  for (const uint32_t field : {uint32_t{0x803}, count, height, width})
    AppendBigEndian(field, bytes);
  return bytes.append(pixels);
}

std::string IdxLabelsFile(std::string_view labels) {
  std::string bytes;
  AppendBigEndian(0x801, bytes);
  AppendBigEndian(static_cast<uint32_t>(labels.size()), bytes);
  return bytes.append(labels);
}

std::string Gzip(std::string_view contents) {
  constexpr int kGzipFormat = 16;  // added to the size of the window
  z_stream stream = {};
  RM_CHECK(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                        MAX_WBITS + kGzipFormat, 8, Z_DEFAULT_STRATEGY) == Z_OK,
           "zlib has no memory");
  std::string bytes(deflateBound(&stream, contents.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  RM_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate fell short");
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

std::string VocabJson(const std::vector<std::string>& merges) {
  std::string json = "{";
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    absl::StrAppendFormat(&json, "\"\\u%04x\": %d,\n",
                          is_printable ? byte : next++, byte);
  }
  int id = 256;
  for (std::string merge : merges) {
    merge.erase(std::remove(merge.begin(), merge.end(), ' '), merge.end());
    json += "\"" + merge + "\": " + std::to_string(id++) + ",\n";
  }
  return json + "\"<|endoftext|>\": " + std::to_string(id) + "}\n";
}

std::string MergesText(const std::vector<std::string>& merges) {
  std::string text = "#version: 0.2\n";
  for (const std::string& merge : merges) text += merge + "\n";
  return text;
}

}  // namespace ringmaster
