#include "athanor/text/models/bpe_model.h"

#include <algorithm>
#include <climits>
#include <queue>

#include "athanor/base/check.h"
#include "athanor/text/byte_level.h"
#include "athanor/text/unicode.h"

namespace athanor::text::models {
namespace {

// Below this length a scan for the lowest rank beats a heap.
constexpr size_t kShortWord = 48;
constexpr int32_t kNoRank = INT_MAX;
constexpr int32_t kGone = -1;

}  // namespace

BpeModel::BpeModel(Vocabulary vocabulary, const std::vector<std::pair<int32_t, int32_t>>& merges,
                   BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  add_merges(merges);
  find_bytes_and_chars();
  find_cuts(merges);
  count_bytes();
}

void BpeModel::add_merges(const std::vector<std::pair<int32_t, int32_t>>& merges) {
  merges_.reserve(merges.size());
  merged_pairs_ = PairSet(merges.size());
  const std::string& prefix = options_.continuing_subword_prefix;
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges[rank];
    const std::string* const left_text = vocabulary_.token(left);
    const std::string* const right_text = vocabulary_.token(right);
    check(left_text && right_text, "{}: merge {} names an id that has no token", options_.name, rank);
    joined = *left_text;
    joined += std::string_view(*right_text).substr(right_text->starts_with(prefix) ? prefix.size() : 0);
    const auto id = vocabulary_.find(joined);
    check(id.has_value(), "{}: merge {} of '{}' and '{}' gives '{}', which is not in the vocabulary",
          options_.name, rank, *left_text, *right_text, joined);
    // The last rank of a merge that stands twice counts, as in Hugging Face's tokenizers.
    merges_[pair_key(left, right)] = {static_cast<int32_t>(rank), *id};
    merged_pairs_.add(pair_key(left, right));
  }
}

void BpeModel::find_bytes_and_chars() {
  has_all_fallbacks_ = options_.byte_fallback;
  for (int byte = 0; byte < 256; ++byte) {
    const auto i = static_cast<size_t>(byte);
    const char c = static_cast<char>(byte);
    byte_ids_[i] = vocabulary_.find(bytes_to_chars({&c, 1})).value_or(-1);
    fallback_ids_[i] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
    has_all_byte_chars_ &= byte_ids_[i] >= 0;
    has_all_fallbacks_ &= fallback_ids_[i] >= 0;
  }
  ascii_ids_.fill(-1);
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string* const token = vocabulary_.token(id);
    if (!token || token->empty() || token->size() > 4) continue;
    const CodePoint c = decode_utf8(*token, 0);
    if (c.size != token->size() || c.value == kInvalidByte) continue;
    if (c.value < 128)
      ascii_ids_[c.value] = id;
    else
      char_ids_[c.value] = id;
  }
}

// Unknown characters that are left out or join others to one unk reach over their places, and a word that is one token as
// a whole must not be cut. Of raw bytes nearly every pair has a merge.
void BpeModel::find_cuts(const std::vector<std::pair<int32_t, int32_t>>& merges) {
  if (!options_.byte_fallback || is_affixed() || options_.ignore_merges) return;
  std::vector<bool> is_fallback(static_cast<size_t>(vocabulary_.size()));
  for (size_t byte = 0; byte < fallback_ids_.size(); ++byte) {
    const int32_t id = fallback_ids_[byte];
    if (id >= 0)
      is_fallback[static_cast<size_t>(id)] = true;
    else if (byte >= ascii_ids_.size() || ascii_ids_[byte] < 0)
      return;  // not every character has an id
  }
  SafeCuts cuts(merges.size());
  for (const auto& [left, right] : merges) {
    if (is_fallback[static_cast<size_t>(left)] || is_fallback[static_cast<size_t>(right)]) return;
    cuts.add(*vocabulary_.token(left), *vocabulary_.token(right));
  }
  cuts_ = std::move(cuts);
}

void BpeModel::read_raw_bytes() {
  raw_bytes_ = true;
  cuts_.reset();
  count_bytes();
}

// A token of raw bytes has a character for each byte.
void BpeModel::count_bytes() {
  num_bytes_.assign(static_cast<size_t>(vocabulary_.size()), 0);
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string* const token = vocabulary_.token(id);
    if (!token || id == options_.unk) continue;
    const bool may_be_byte = options_.byte_fallback && token->size() == 6 && token->starts_with("<0x");
    if (!raw_bytes_ && (is_affixed() || may_be_byte)) continue;
    num_bytes_[static_cast<size_t>(id)] =
        static_cast<uint32_t>(raw_bytes_ ? static_cast<size_t>(count_code_points(*token)) : token->size());
  }
}

std::optional<int32_t> BpeModel::find_char(std::string_view bytes, uint32_t code_point) const {
  if (code_point == kInvalidByte) return vocabulary_.find(bytes);
  if (code_point < 128)
    return ascii_ids_[code_point] < 0 ? std::nullopt : std::optional(ascii_ids_[code_point]);
  const int32_t* const id = char_ids_.find(code_point);
  return id ? std::optional(*id) : std::nullopt;
}

void BpeModel::append_char(std::string_view word, size_t at, CodePoint c, bool& after_unk,
                           std::vector<int32_t>& ids, std::vector<TextRange>* ranges) const {
  const size_t size = c.size;
  const auto put = [&](int32_t id, size_t begin, size_t end) {
    ids.push_back(id);
    if (ranges) ranges->push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  };
  const std::string_view bytes = word.substr(at, size);
  const bool affixed = is_affixed();
  std::string with_affixes;
  if (affixed) {
    if (at > 0) with_affixes = options_.continuing_subword_prefix;
    with_affixes += bytes;
    if (at + size == word.size()) with_affixes += options_.end_of_word_suffix;
  }
  const bool was_after_unk = std::exchange(after_unk, false);
  if (const auto id = affixed ? vocabulary_.find(with_affixes) : find_char(bytes, c.value))
    return put(*id, at, at + size);
  if (options_.byte_fallback) {
    const std::string_view spelled = affixed ? std::string_view(with_affixes) : bytes;
    const auto id_of = [&](char byte) { return fallback_ids_[static_cast<uint8_t>(byte)]; };
    if (std::ranges::all_of(spelled, [&](char byte) { return id_of(byte) >= 0; })) {
      for (size_t i = 0; i < spelled.size(); ++i)
        put(id_of(spelled[i]), at + std::min(i, size - 1), at + std::min(i + 1, size));
      return;
    }
  }
  check(options_.missing_unk.empty(), "{}: the vocabulary has neither a token for {} nor the unk_token '{}'",
        options_.name, describe_char(bytes), options_.missing_unk);
  if (!options_.unk) return;
  if (options_.fuse_unk && was_after_unk) {
    if (ranges) ranges->back().end = static_cast<uint32_t>(at + size);
  } else {
    put(*options_.unk, at, at + size);
  }
  after_unk = true;
}

void BpeModel::append_symbols(std::string_view word, std::vector<int32_t>& ids,
                              std::vector<TextRange>* ranges) const {
  if (raw_bytes_) {
    for (size_t i = 0; i < word.size(); ++i) {
      ids.push_back(byte_ids_[static_cast<uint8_t>(word[i])]);
      if (ranges) ranges->push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(i + 1)});
    }
    return;
  }
  bool after_unk = false;
  for (size_t at = 0; at < word.size();) {
    const CodePoint c = decode_utf8(word, at);
    append_char(word, at, c, after_unk, ids, ranges);
    at += c.size;
  }
}

std::optional<int32_t> BpeModel::whole_word(std::string_view word) const {
  if (!options_.ignore_merges) return std::nullopt;
  return raw_bytes_ ? vocabulary_.find(bytes_to_chars(word)) : vocabulary_.find(word);
}

void BpeModel::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (const auto id = whole_word(word)) return ids.push_back(*id);
  const size_t begin = ids.size();
  append_symbols(word, ids, nullptr);
  const size_t size = ids.size() - begin;
  int32_t* const symbols = ids.data() + begin;
  if (size <= kShortWord) return ids.resize(begin + merge_short(symbols, size));
  merge_long(symbols, size);
  ids.erase(std::remove(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end(), kGone), ids.end());
}

void BpeModel::trace_word(std::string_view word, std::vector<WordToken>& tokens) const {
  if (const auto id = whole_word(word)) return tokens.push_back({*id, 0, static_cast<uint32_t>(word.size())});
  std::vector<int32_t> ids;
  std::vector<TextRange> ranges;
  append_symbols(word, ids, &ranges);
  merge_long(ids.data(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kGone)
      tokens.back().end = ranges[i].end;
    else
      tokens.push_back({ids[i], ranges[i].begin, ranges[i].end});
  }
}

std::vector<std::string> BpeModel::warnings() const {
  if (options_.unk || !options_.missing_unk.empty() || raw_bytes_ || has_all_byte_chars_ ||
      has_all_fallbacks_)
    return {};
  return {options_.name + ": names no unk_token: characters that the vocabulary lacks are left out"};
}

size_t BpeModel::merge_short(int32_t* ids, size_t size) const {
  if (size < 2) return size;
  Merge next[kShortWord];  // of each symbol with its right neighbour
  const auto look_up = [&](size_t i) {
    const Merge* const merge = find_merge(ids[i], ids[i + 1]);
    next[i] = merge ? *merge : Merge{kNoRank, 0};
  };
  for (size_t i = 0; i + 1 < size; ++i) look_up(i);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i)
      if (next[i].rank < next[best].rank) best = i;
    if (next[best].rank == kNoRank) break;
    ids[best] = next[best].id;
    std::copy(ids + best + 2, ids + size, ids + best + 1);
    if (best + 2 < size) std::copy(next + best + 2, next + size - 1, next + best + 1);
    --size;
    if (best > 0) look_up(best - 1);
    if (best + 1 < size) look_up(best);
  }
  return size;
}

void BpeModel::merge_long(int32_t* ids, size_t size) const {
  struct Candidate {
    int32_t rank;
    uint32_t at;
    int32_t id;
    int32_t left, right;  // what stood there when it was found
  };
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  constexpr uint32_t kNone = UINT32_MAX;
  check(size < kNone, "bpe: a word of {} symbols", size);
  std::vector<uint32_t> before(size), after(size);
  for (uint32_t i = 0; i < size; ++i) {
    before[i] = i == 0 ? kNone : i - 1;
    after[i] = i + 1 == size ? kNone : i + 1;
  }
  std::vector<Candidate> found;
  const auto look_up = [&](uint32_t at, auto put) {
    const uint32_t right = after[at];
    if (right == kNone) return;
    if (const Merge* const merge = find_merge(ids[at], ids[right]))
      put(Candidate{merge->rank, at, merge->id, ids[at], ids[right]});
  };
  for (uint32_t i = 0; i < size; ++i) look_up(i, [&](const Candidate& c) { found.push_back(c); });
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> queue(later, std::move(found));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const uint32_t right = after[top.at];
    if (ids[top.at] != top.left || right == kNone || ids[right] != top.right) continue;  // merged meanwhile
    ids[top.at] = top.id;
    ids[right] = kGone;
    after[top.at] = after[right];
    if (after[right] != kNone) before[after[right]] = top.at;
    const auto put = [&](const Candidate& c) { queue.push(c); };
    if (before[top.at] != kNone) look_up(before[top.at], put);
    look_up(top.at, put);
  }
}

}  // namespace athanor::text::models
