#include "worker/data/bpe_tokenizer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status/status_macros.h"
#include "worker/data/pretokenizer.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

// Longer words are rare, and would make the size of the cache depend on them.
constexpr size_t kMaxCachedBytes = 64;
// The limit of each cache: 2^16 words in all, some 10 MB, which is more word
// forms than make up 95% of English text.
constexpr size_t kMaxCachedWords = size_t{1} << 12;

}  // namespace

bool BpeTokenizer::WordCache::Find(std::string_view word,
                                   std::vector<int32_t>& tokens) const {
  MutexLock lock(mutex_);
  const auto it = words_.find(absl::string_view(word.data(), word.size()));
  if (it == words_.end()) return false;
  const auto begin = tokens_.begin() + it->second.begin;
  tokens.insert(tokens.end(), begin, begin + it->second.count);
  return true;
}

void BpeTokenizer::WordCache::Add(std::string_view word,
                                  absl::Span<const int32_t> tokens) {
  MutexLock lock(mutex_);
  if (words_.size() >= kMaxCachedWords) {
    words_.clear();
    tokens_.clear();
  }
  const Place place = {static_cast<uint32_t>(tokens_.size()),
                       static_cast<uint32_t>(tokens.size())};
  // Another thread may have been faster.
  if (words_.try_emplace(std::string(word), place).second)
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

// A word while it is merged: a doubly linked list of symbols in a vector, and a
// heap of the pairs that can be merged. Kept from word to word for its memory.
class BpeTokenizer::Word {
 public:
  // Appends the tokens of `word`.
  void Encode(const BpeTables& tables, std::string_view word,
              std::vector<int32_t>& tokens) {
    Begin(tables, word);
    while (!heap_.empty()) MergeAll(tables, heap_.front().rank);
    for (int32_t i = 0; i != kEnd; i = symbols_[Index(i)].next)
      tokens.push_back(symbols_[Index(i)].id);
  }

 private:
  static constexpr int32_t kEnd = -1;
  static constexpr int32_t kNoMerge = std::numeric_limits<int32_t>::max();

  struct Symbol {
    int32_t id = 0;
    int32_t prev = kEnd;
    int32_t next = kEnd;
    int32_t rank = kNoMerge;  // of the merge with the next
  };
  // A pair that begins at symbol `at`. It is outdated, and passed over, unless
  // that symbol still has this rank: no pair ever comes back.
  struct Pair {
    int32_t rank;
    int32_t at;
    bool operator>(const Pair& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  static size_t Index(int32_t i) { return static_cast<size_t>(i); }

  void Begin(const BpeTables& tables, std::string_view word) {
    symbols_.resize(word.size());
    heap_.clear();
    const auto count = static_cast<int32_t>(word.size());
    for (int32_t i = 0; i < count; ++i) {
      const auto byte = static_cast<unsigned char>(word[Index(i)]);
      symbols_[Index(i)] = {.id = tables.id_of_byte[byte],
                            .prev = i - 1,
                            .next = i + 1 < count ? i + 1 : kEnd};
    }
    for (int32_t i = 0; i < count; ++i) {
      SetRank(tables, i);
      if (symbols_[Index(i)].rank != kNoMerge)
        heap_.push_back({symbols_[Index(i)].rank, i});
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  // Merges all pairs of `rank`, from left to right. Pairs that this makes wait
  // until it is done, though their rank may be lower in a list of merges that
  // was not learned but made up.
  void MergeAll(const BpeTables& tables, int32_t rank) {
    made_.clear();
    while (!heap_.empty() && heap_.front().rank == rank) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const int32_t at = heap_.back().at;
      heap_.pop_back();
      if (symbols_[Index(at)].rank == rank) MergeAt(tables, at);
    }
    for (const int32_t at : made_) {
      const int32_t made_rank = symbols_[Index(at)].rank;
      if (made_rank == kNoMerge) continue;
      heap_.push_back({made_rank, at});
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }

  void MergeAt(const BpeTables& tables, int32_t at) {
    Symbol& left = symbols_[Index(at)];
    Symbol& right = symbols_[Index(left.next)];
    left.id = tables.merges.find(BpeTables::PairKey(left.id, right.id))
                  ->second.result;
    left.next = right.next;
    right.rank = kNoMerge;
    if (left.next != kEnd) symbols_[Index(left.next)].prev = at;
    SetRank(tables, at);
    made_.push_back(at);
    if (left.prev != kEnd) {
      SetRank(tables, left.prev);
      made_.push_back(left.prev);
    }
  }

  void SetRank(const BpeTables& tables, int32_t at) {
    Symbol& symbol = symbols_[Index(at)];
    symbol.rank = kNoMerge;
    if (symbol.next == kEnd) return;
    const auto it = tables.merges.find(
        BpeTables::PairKey(symbol.id, symbols_[Index(symbol.next)].id));
    if (it != tables.merges.end()) symbol.rank = it->second.rank;
  }

  std::vector<Symbol> symbols_;
  std::vector<Pair> heap_;     // the lowest rank, then the leftmost, on top
  std::vector<int32_t> made_;  // where new pairs begin
};

absl::StatusOr<std::unique_ptr<BpeTokenizer>> BpeTokenizer::Load(
    const std::string& vocab_path, const std::string& merges_path) {
  ASSIGN_OR_RETURN(BpeTables tables, LoadBpeTables(vocab_path, merges_path));
  return std::make_unique<BpeTokenizer>(std::move(tables));
}

std::optional<int32_t> BpeTokenizer::Find(std::string_view token) const {
  const auto found =
      std::find(tables_.bytes_of_id.begin(), tables_.bytes_of_id.end(), token);
  if (found == tables_.bytes_of_id.end()) return std::nullopt;
  return static_cast<int32_t>(found - tables_.bytes_of_id.begin());
}

std::vector<int32_t> BpeTokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  if (!text.empty()) EncodeSome(text, text.size(), tokens);
  return tokens;
}

size_t BpeTokenizer::EncodeSome(std::string_view text, size_t min_bytes,
                                std::vector<int32_t>& tokens) const {
  Word scratch;
  size_t done = 0;
  while (done < min_bytes && done < text.size()) {
    const std::string_view rest = text.substr(done);
    const size_t length = FirstWordBytes(rest);
    EncodeWord(rest.substr(0, length), scratch, tokens);
    done += length;
  }
  return done;
}

void BpeTokenizer::EncodeWord(std::string_view word, Word& scratch,
                              std::vector<int32_t>& tokens) const {
  if (word.size() > kMaxCachedBytes) {
    scratch.Encode(tables_, word, tokens);
    return;
  }
  WordCache& cache = caches_[XXH3_64bits(word.data(), word.size()) % kCaches];
  if (cache.Find(word, tokens)) return;
  const size_t begin = tokens.size();
  scratch.Encode(tables_, word, tokens);
  cache.Add(word, absl::MakeConstSpan(tokens).subspan(begin));
}

absl::StatusOr<std::string> BpeTokenizer::Decode(
    absl::Span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there is no token ", token, " in a vocabulary of ", vocabulary()));
    }
    text += tables_.bytes_of_id[static_cast<size_t>(token)];
  }
  return text;
}

}  // namespace ringmaster
