// Small data files for tests: a directory that lasts as long as the test, and
// the contents of each format, right or nearly so.
#ifndef RINGMASTER_WORKER_DATA_TESTING_DATA_FILES_H_
#define RINGMASTER_WORKER_DATA_TESTING_DATA_FILES_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace ringmaster {

// A directory of the running test's own, removed with this.
class TestDirectory {
 public:
  TestDirectory();
  ~TestDirectory();
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes a file, with the directories that it needs; returns its path.
  std::string Write(const std::string& relative,
                    std::string_view contents) const;

 private:
  std::filesystem::path path_;
};

// Expects that `status` has this code and one line with `part` in it.
void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const std::string& part);

// Tokens as nanoGPT's files have them.
std::string RawTokens(const std::vector<uint16_t>& tokens);
// llm.c's file: a header for `tokens`, and the tokens.
std::string LlmCTokens(const std::vector<uint16_t>& tokens);
// llm.c's header alone.
std::string LlmCHeader(int32_t magic, int32_t version, int32_t count);

// IDX files. `pixels` has height * width of them for each of `count` images.
std::string IdxImagesFile(uint32_t count, uint32_t height, uint32_t width,
                          std::string_view pixels);
std::string IdxLabelsFile(std::string_view labels);
std::string Gzip(std::string_view contents);

// A vocabulary of the 256 bytes in their order, then the merges' results in
// theirs, then "<|endoftext|>". Lines of `merges` are "a b".
std::string VocabJson(const std::vector<std::string>& merges);
std::string MergesText(const std::vector<std::string>& merges);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_TESTING_DATA_FILES_H_
