#include "worker/data/bpe_tables.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "common/text/utf8.h"
#include "nlohmann/json.hpp"
#include "worker/data/data_file.h"

namespace ringmaster {
namespace {

using nlohmann::json;
using TokenIds = absl::flat_hash_map<std::string, int64_t>;

// GPT-2's files have 1 and 0.5 MB; the largest vocabularies in use 20 MB.
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr char kEndOfText[] = "<|endoftext|>";
constexpr size_t kMaxCitedBytes = 200;

// The character that stands for each byte, in UTF-8.
std::array<std::string, 256> ByteSymbols() {
  std::array<std::string, 256> symbols;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') ||
                              (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const int c = is_printable ? byte : next++;
    // All are below U+0800: one byte of UTF-8, or two.
    if (c < 0x80) {
      symbols[byte] = {static_cast<char>(c)};
    } else {
      symbols[byte] = {static_cast<char>(0xc0 | c >> 6),
                       static_cast<char>(0x80 | (c & 0x3f))};
    }
  }
  return symbols;
}

// Reads one flat object of non-negative integers. Streaming, because a
// document would silently keep the last of equal keys.
class VocabReader final : public nlohmann::json_sax<json> {
 public:
  explicit VocabReader(std::string_view text) : text_(text) {}

  TokenIds TakeIds() { return std::move(ids_); }
  const std::string& error() const { return error_; }

  bool null() override { return NotAnId("null"); }
  bool boolean(bool /*value*/) override { return NotAnId("a boolean"); }
  bool number_integer(number_integer_t value) override {
    return NotAnId(absl::StrCat(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!is_open_ || value > std::numeric_limits<int32_t>::max())
      return NotAnId(absl::StrCat(value));
    if (!ids_.emplace(key_, static_cast<int64_t>(value)).second) {
      error_ = absl::StrCat("token ", Quoted(key_), " is there twice");
      return false;
    }
    return true;
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return NotAnId(BoundedUtf8(text, kMaxCitedBytes));
  }
  bool string(string_t& /*value*/) override { return NotAnId("a string"); }
  bool binary(binary_t& /*value*/) override { return NotAnId("binary"); }
  bool start_object(size_t /*elements*/) override {
    if (is_open_) return NotAnId("an object");
    is_open_ = true;
    return true;
  }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(size_t /*elements*/) override { return NotAnId("an array"); }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string& /*last_token*/,
                   const json::exception& error) override {
    const std::string_view read = text_.substr(0, position);
    // It escapes other control characters itself.
    const std::string what =
        absl::StrReplaceAll(error.what(), {{"\x7f", "\\x7f"}});
    // "[json.exception.parse_error.101] parse error at line 1, column 2: why"
    const size_t why = what.find(": ");
    error_ =
        absl::StrCat("line ", 1 + std::count(read.begin(), read.end(), '\n'),
                     ": malformed JSON: ",
                     BoundedUtf8(why == what.npos ? what : what.substr(why + 2),
                                 kMaxCitedBytes));
    return false;
  }

 private:
  bool NotAnId(const std::string& found) {
    error_ = is_open_
                 ? absl::StrCat("token ", Quoted(key_), " has ", found,
                                ", but ids are whole numbers from 0 on")
                 : absl::StrCat("holds ", found,
                                ", but must be one object of token and id");
    return false;
  }

  std::string_view text_;
  bool is_open_ = false;
  std::string key_;
  TokenIds ids_;
  std::string error_;
};

// The token of each id.
absl::StatusOr<std::vector<std::string>> TokensById(const std::string& path,
                                                    const TokenIds& ids) {
  std::vector<std::string> tokens(ids.size());
  for (const auto& [token, id] : ids) {
    if (id >= static_cast<int64_t>(ids.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": token ", Quoted(token), " has id ", id, ", but the ids of ",
          ids.size(), " tokens must be 0 to ", ids.size() - 1));
    }
    // Only the empty token, which is refused below, looks like a free place.
    if (!tokens[static_cast<size_t>(id)].empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tokens ", Quoted(tokens[static_cast<size_t>(id)]), " and ",
          Quoted(token), " both have id ", id));
    }
    tokens[static_cast<size_t>(id)] = token;
  }
  return tokens;
}

// Replaces the characters of `token` by the bytes that they stand for.
absl::StatusOr<std::string> BytesOf(
    const std::string& token,
    const absl::flat_hash_map<std::string, char>& byte_of_symbol) {
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    const bool is_long = static_cast<unsigned char>(token[i]) >= 0x80;
    const std::string symbol = token.substr(i, is_long ? 2 : 1);
    const auto it = byte_of_symbol.find(symbol);
    if (it == byte_of_symbol.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", Quoted(token),
                       " has a character that stands for no byte; is "
                       "this the vocabulary of a byte-level BPE?"));
    }
    bytes += it->second;
    i += symbol.size();
  }
  if (bytes.empty())
    return absl::InvalidArgumentError("there is an empty token");
  return bytes;
}

absl::StatusOr<TokenIds> ReadVocab(const std::string& path, BpeTables& tables) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxFileBytes));
  VocabReader reader(text);
  if (!json::sax_parse(text, &reader)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", reader.error()));
  }
  TokenIds ids = reader.TakeIds();
  ASSIGN_OR_RETURN(const std::vector<std::string> tokens,
                   TokensById(path, ids));

  const std::array<std::string, 256> symbols = ByteSymbols();
  absl::flat_hash_map<std::string, char> byte_of_symbol;
  for (int byte = 0; byte < 256; ++byte) {
    byte_of_symbol[symbols[byte]] = static_cast<char>(byte);
    const auto it = ids.find(symbols[byte]);
    if (it == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": no token for byte ", byte, " (\"", symbols[byte],
          "\"); a byte-level BPE has one for each of the 256"));
    }
    tables.id_of_byte[byte] = static_cast<int32_t>(it->second);
  }
  for (const std::string& token : tokens) {
    absl::StatusOr<std::string> bytes = BytesOf(token, byte_of_symbol);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", bytes.status().message()));
    }
    tables.bytes_of_id.push_back(*std::move(bytes));
  }
  if (const auto it = ids.find(kEndOfText); it != ids.end())
    tables.end_of_text = static_cast<int32_t>(it->second);
  return ids;
}

absl::StatusOr<int32_t> IdOf(const std::string& token, const TokenIds& ids) {
  const auto it = ids.find(token);
  if (it != ids.end()) return static_cast<int32_t>(it->second);
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(token), " is not in the vocabulary"));
}

// Adds the merge that `line` tells; the error is without the place.
absl::Status AddMerge(std::string_view line, const TokenIds& ids,
                      BpeTables& tables) {
  const size_t space = line.find(' ');
  if (space == 0 || space + 1 >= line.size() || space == line.npos ||
      line.find(' ', space + 1) != line.npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(line), " is not two tokens with a space between them"));
  }
  const std::string left(line.substr(0, space));
  const std::string right(line.substr(space + 1));
  ASSIGN_OR_RETURN(const int32_t left_id, IdOf(left, ids));
  ASSIGN_OR_RETURN(const int32_t right_id, IdOf(right, ids));
  const auto result = ids.find(left + right);
  if (result == ids.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(left), " and ", Quoted(right), " merge into ",
                     Quoted(left + right), ", which is not in the vocabulary"));
  }
  const auto rank = static_cast<int32_t>(tables.merges.size());
  if (!tables.merges
           .try_emplace(
               BpeTables::PairKey(left_id, right_id),
               BpeTables::Merge{rank, static_cast<int32_t>(result->second)})
           .second) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(left), " and ", Quoted(right),
                     " are merged by an earlier line"));
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const std::string& path, const TokenIds& ids,
                        BpeTables& tables) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxFileBytes));
  std::string_view rest = text;
  while (!rest.empty() && (rest.back() == '\n' || rest.back() == '\r'))
    rest.remove_suffix(1);
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (number == 1 && line.rfind("#version", 0) == 0) continue;
    if (const absl::Status status = AddMerge(line, ids, tables); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BpeTables> LoadBpeTables(const std::string& vocab_path,
                                        const std::string& merges_path) {
  BpeTables tables;
  ASSIGN_OR_RETURN(const TokenIds ids, ReadVocab(vocab_path, tables));
  RETURN_IF_ERROR(ReadMerges(merges_path, ids, tables));
  return tables;
}

}  // namespace ringmaster
