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

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(std::move(options)) {
  check(scores_.size() == static_cast<size_t>(vocabulary_.size()), "{}: {} scores for {} pieces",
        options_.name, scores_.size(), vocabulary_.size());
  double lowest = std::numeric_limits<double>::infinity();
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    lowest = std::min(lowest, scores_[static_cast<size_t>(id)]);
    pieces_.add(*vocabulary_.token(id), id);
  }
  unk_score_ = lowest - kUnkPenalty;
  has_all_fallbacks_ = options_.byte_fallback;
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t id = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
    fallback_ids_[static_cast<size_t>(byte)] = id;
    has_all_fallbacks_ &= id >= 0;
  }
}

void UnigramModel::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  struct Node {  // the best way to cut the word up to here
    double score = 0;
    size_t begin = std::string_view::npos;  // of its last piece
    int32_t id = kUncovered;
  };
  std::vector<Node> best(word.size() + 1);
  const auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
    Node& node = best[end];
    const double total = best[begin].score + score;
    if (node.begin == std::string_view::npos || total > node.score) node = {total, begin, id};
  };
  for (size_t at = 0; at < word.size();) {
    const size_t char_size = decode_utf8(word, at).size;
    bool has_char = false;
    pieces_.for_each_prefix(word, at, [&](size_t end, int32_t id) {
      offer(at, end, id, scores_[static_cast<size_t>(id)]);
      has_char |= end - at == char_size;
    });
    if (!has_char) offer(at, at + char_size, options_.unk.value_or(kUncovered), unk_score_);
    at += char_size;
  }
  std::vector<std::string_view> pieces;
  bool after_unk = false;
  for (size_t end = word.size(); end > 0;) {
    const Node& node = best[end];
    const bool is_unk = node.id == options_.unk.value_or(kUncovered);
    if (is_unk && after_unk)
      pieces.back() = word.substr(node.begin, pieces.back().size() + end - node.begin);
    else
      pieces.push_back(word.substr(node.begin, end - node.begin));
    after_unk = is_unk;
    end = node.begin;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) append_piece(*piece, ids);
}

void UnigramModel::append_piece(std::string_view piece, std::vector<int32_t>& ids) const {
  if (const auto id = vocabulary_.find(piece)) return ids.push_back(*id);
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
  UnigramOptions options{.name = node.name(), .byte_fallback = node.boolean("byte_fallback", false)};
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
