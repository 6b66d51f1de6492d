#include "tests/fuzz/corpus_file.h"

#include <fstream>
#include <iterator>

#include "common/status/check.h"

namespace ringmaster::fuzz {

std::string CorpusFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  RM_CHECK(in.good(), "bazel runs it, where the corpus is");
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace ringmaster::fuzz
