#include "athanor/text/models/unigram_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "athanor/base/check.h"
#include "athanor/text/unicode.h"

namespace athanor::text::models {
namespace {
constexpr double kUnkPenalty = 10;
constexpr int32_t kUncovered = -1;
}  // namespace

// The best way to cut the word up to a place.
struct UnigramModel::Node {
  double score = 0;
  size_t begin = std::string_view::npos;  // of its last piece
  int32_t id = kUncovered;
};

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(std::move(options)) {
  const auto size = static_cast<size_t>(vocabulary_.size());
  check(scores_.size() == size, "{}: {} scores for {} pieces", options_.name, scores_.size(), size);
  is_own_.resize(size);
  is_hidden_.resize(size);
  for (const int32_t id : options_.own_pieces) is_own_[static_cast<size_t>(id)] = true;
  for (const int32_t id : options_.not_in_text) is_hidden_[static_cast<size_t>(id)] = true;
  double lowest = std::numeric_limits<double>::infinity();
  highest_ = std::numeric_limits<float>::min();  // SentencePiece's search for the highest begins there
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const auto i = static_cast<size_t>(id);
    if (is_hidden_[i] || (options_.like_sentencepiece && id == options_.unk)) continue;
    // SentencePiece's bounds are those of its ordinary pieces.
    if (!options_.like_sentencepiece || !is_own_[i]) {
      lowest = std::min(lowest, scores_[i]);
      highest_ = std::max(highest_, scores_[i]);
    }
    pieces_.add(*vocabulary_.token(id), id);
  }
  unk_score_ = lowest - kUnkPenalty;
  if (options_.like_sentencepiece) unk_score_ = static_cast<float>(lowest) - static_cast<float>(kUnkPenalty);
  has_all_fallbacks_ = options_.byte_fallback;
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t id = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
    fallback_ids_[static_cast<size_t>(byte)] = id;
    has_all_fallbacks_ &= id >= 0;
  }
}

template <typename Score>
void UnigramModel::find_best(std::string_view word, std::vector<Node>& best) const {
  const auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
    Node& node = best[end];
    const double total = best[begin].score + score;
    if (node.begin == std::string_view::npos || total > node.score)
      node = {static_cast<Score>(total), begin, id};
  };
  for (size_t at = 0; at < word.size();) {
    const size_t char_size = decode_utf8(word, at).size;
    bool has_char = false;
    pieces_.for_each_prefix(word, at, [&](size_t end, int32_t id) {
      const auto i = static_cast<size_t>(id);
      const bool gets_bonus = options_.like_sentencepiece && is_own_[i];
      offer(at, end, id, gets_bonus ? static_cast<double>(end - at) * highest_ - 0.1 : scores_[i]);
      has_char |= end - at == char_size;
    });
    if (!has_char) offer(at, at + char_size, options_.unk.value_or(kUncovered), unk_score_);
    at += char_size;
  }
}

void UnigramModel::cut(std::string_view word, const std::function<void(size_t, size_t)>& put) const {
  std::vector<Node> best(word.size() + 1);
  if (options_.like_sentencepiece)
    find_best<float>(word, best);
  else
    find_best<double>(word, best);
  std::vector<std::pair<size_t, size_t>> pieces;
  bool after_unk = false;
  for (size_t end = word.size(); end > 0;) {
    const Node& node = best[end];
    const bool is_unk = node.id == options_.unk.value_or(kUncovered);
    // Without bytes to fall back to, SentencePiece joins unknown characters as well.
    if (is_unk && after_unk)
      pieces.back().first = node.begin;
    else
      pieces.emplace_back(node.begin, end);
    after_unk = is_unk;
    end = node.begin;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) put(piece->first, piece->second);
}

void UnigramModel::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  cut(word, [&](size_t begin, size_t end) { append_piece(word.substr(begin, end - begin), ids); });
}

void UnigramModel::trace_word(std::string_view word, std::vector<WordToken>& tokens) const {
  std::vector<int32_t> ids;
  cut(word, [&](size_t begin, size_t end) {
    ids.clear();
    append_piece(word.substr(begin, end - begin), ids);
    for (const int32_t id : ids)
      tokens.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  });
}

size_t UnigramModel::num_bytes_of(int32_t id) const {
  const std::string* const token = vocabulary_.token(id);
  if (!token || id == options_.unk) return 0;
  const bool may_be_byte = options_.byte_fallback && token->size() == 6 && token->starts_with("<0x");
  return may_be_byte ? 0 : token->size();
}

std::string UnigramModel::shown(int32_t id, std::string_view word_part) const {
  return id == options_.unk ? std::string(word_part) : Model::shown(id, word_part);
}

std::optional<int32_t> UnigramModel::find_piece(std::string_view piece) const {
  const auto id = vocabulary_.find(piece);
  return id && !is_hidden_[static_cast<size_t>(*id)] ? id : std::nullopt;
}

void UnigramModel::append_piece(std::string_view piece, std::vector<int32_t>& ids) const {
  if (const auto id = find_piece(piece)) return ids.push_back(*id);
  const auto id_of = [&](char byte) { return fallback_ids_[static_cast<uint8_t>(byte)]; };
  if (options_.byte_fallback && std::ranges::all_of(piece, [&](char byte) { return id_of(byte) >= 0; })) {
    for (const char byte : piece) ids.push_back(id_of(byte));
    return;
  }
  check(options_.unk.has_value(), "{}: no piece covers {} and there is no unk_id", options_.name,
        describe_char(piece));
  ids.push_back(*options_.unk);
}

std::unique_ptr<Model> parse_unigram(const JsonNode& node) {
  std::vector<std::pair<std::string, int64_t>> pieces;
  std::vector<double> scores;
  for (const JsonNode& item : node.at("vocab").items()) {
    const auto pair = item.items();
    if (pair.size() != 2) item.fail(fmt::format("got {} items, expected [piece, score]", pair.size()));
    pieces.emplace_back(pair[0].text(), pieces.size());
    scores.push_back(pair[1].number());
    if (!std::isfinite(scores.back())) pair[1].fail("is not finite");
  }
  const auto ids_at = [&](const char* key) {
    std::vector<int32_t> ids;
    if (const auto list = node.find(key))
      for (const JsonNode& item : list->items()) {
        const int64_t id = item.integer();
        if (id < 0 || id >= static_cast<int64_t>(pieces.size()))
          item.fail(fmt::format("got {}, expected 0 to {}", id, static_cast<int64_t>(pieces.size()) - 1));
        ids.push_back(static_cast<int32_t>(id));
      }
    return ids;
  };
  UnigramOptions options{.name = node.name(),
                         .byte_fallback = node.boolean("byte_fallback", false),
                         .like_sentencepiece = node.boolean("like_sentencepiece", false),
                         .not_in_text = ids_at("not_in_text"),
                         .own_pieces = ids_at("own_pieces")};
  if (const auto unk = node.find("unk_id")) {
    const int64_t id = unk->integer();
    if (id < 0 || id >= static_cast<int64_t>(pieces.size()))
      unk->fail(fmt::format("got {}, expected 0 to {}", id, static_cast<int64_t>(pieces.size()) - 1));
    options.unk = static_cast<int32_t>(id);
  }
  return std::make_unique<UnigramModel>(Vocabulary(node.at("vocab").name(), std::move(pieces)),
                                        std::move(scores), std::move(options));
}

}  // namespace athanor::text::models
