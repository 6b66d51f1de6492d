// CorpusFile reads a file of this repository that a parser should take.
#ifndef RINGMASTER_TESTS_FUZZ_CORPUS_FILE_H_
#define RINGMASTER_TESTS_FUZZ_CORPUS_FILE_H_

#include <string>

namespace ringmaster::fuzz {

// `path` is the repository's. Ends the process if it is not there.
[[nodiscard]] std::string CorpusFile(const std::string& path);

}  // namespace ringmaster::fuzz

#endif  // RINGMASTER_TESTS_FUZZ_CORPUS_FILE_H_
