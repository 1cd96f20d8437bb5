// Precompiled: SentencePiece's map of characters, read as Hugging Face reads it. The map is the size of a trie, the
// trie (a double array of darts-clone's units) and the replacements, each with a NUL behind it.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "athanor/text/base64.h"
#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/unicode.h"
#include "athanor/text/unicode/clusters.h"

namespace athanor::text::normalizers {
namespace {

// One unit of the trie. A node is the place of a unit: its child by byte c is the unit at (node ^ c) with label c, and
// the unit at the node itself holds the value if the unit that led there has one.
struct TrieUnit {
  uint32_t bits;
  bool leads_to_value() const { return bits >> 8 & 1; }
  uint32_t value() const { return bits & 0x7FFFFFFF; }
  uint32_t label() const { return bits & 0x800000FF; }
  size_t offset() const { return size_t{bits >> 10} << ((bits & 0x200) >> 6); }
};

class CharMap {
 public:
  explicit CharMap(const JsonNode& node) {
    const std::optional<std::string> bytes = decode_base64(node.text());
    if (!bytes) node.fail("is not base64");
    const size_t trie_bytes = bytes->size() < 4 ? 0 : read_unit(*bytes, 0);
    if (trie_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes > bytes->size() - 4)
      node.fail(
          fmt::format("got a map of {} bytes that is cut short: its trie has {}", bytes->size(), trie_bytes));
    for (size_t at = 4; at < 4 + trie_bytes; at += 4) units_.push_back({read_unit(*bytes, at)});
    replacements_ = bytes->substr(4 + trie_bytes);
    if (!replacements_.ends_with('\0')) node.fail("the last replacement of the map is cut short");
    if (find_invalid_utf8(replacements_) != std::string::npos)
      node.fail("the replacements of the map are not UTF-8");
    check_places(node);
  }

  // What the shortest key that begins the text is replaced by; none if there is no such key. The shortest one is what
  // Hugging Face takes.
  std::optional<std::string_view> find(std::string_view text) const {
    size_t node = units_[0].offset();
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      const size_t at = node ^ byte;
      if (byte == 0 || at >= units_.size() || units_[at].label() != byte) return std::nullopt;
      node = at ^ units_[at].offset();
      if (units_[at].leads_to_value()) return replacements_.data() + units_[node].value();
    }
    return std::nullopt;
  }

  struct Found {
    size_t size = 0;  // of the key; 0: none
    std::string_view replacement = {};
  };
  // The longest key that begins the text.
  Found find_longest(std::string_view text) const {
    Found found;
    size_t node = units_[0].offset();
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      const size_t at = node ^ byte;
      if (byte == 0 || at >= units_.size() || units_[at].label() != byte) break;
      node = at ^ units_[at].offset();
      if (units_[at].leads_to_value()) found = {i + 1, replacements_.data() + units_[node].value()};
    }
    return found;
  }

 private:
  static uint32_t read_unit(std::string_view bytes, size_t at) {
    uint32_t unit = 0;
    for (size_t i = 4; i-- > 0;) unit = unit << 8 | static_cast<uint8_t>(bytes[at + i]);
    return unit;
  }

  // Every value that a key can reach lies in the trie and names a place in the replacements.
  void check_places(const JsonNode& node) const {
    std::vector<bool> seen(units_.size());
    std::vector<size_t> open;
    const auto reach = [&](size_t place) {
      if (place >= units_.size()) node.fail("the trie of the map points outside itself");
      if (seen[place]) return;
      seen[place] = true;
      open.push_back(place);
    };
    reach(units_[0].offset());
    while (!open.empty()) {
      const size_t from = open.back();
      open.pop_back();
      for (size_t byte = 1; byte < 256; ++byte) {
        const size_t at = from ^ byte;
        if (at >= units_.size() || units_[at].label() != byte) continue;
        const size_t place = at ^ units_[at].offset();
        reach(place);
        if (units_[at].leads_to_value() && units_[place].value() >= replacements_.size())
          node.fail("the trie of the map points behind its replacements");
      }
    }
  }

  std::vector<TrieUnit> units_;
  std::string replacements_;
};

class PrecompiledNormalizer final : public Normalizer {
 public:
  PrecompiledNormalizer(CharMap map, bool like_sentencepiece)
      : map_(std::move(map)), like_sentencepiece_(like_sentencepiece) {}

  void apply(NormalizedText& text) const override {
    const std::string all = text.text();
    std::vector<Step> steps;
    for (size_t at = 0; at < all.size();) {
      const std::string_view rest = std::string_view(all).substr(at);
      if (like_sentencepiece_) {
        at += add_longest(rest, steps);
      } else {
        const size_t end = unicode::cluster_end(all, at);
        add_cluster(rest.substr(0, end - at), steps);
        at = end;
      }
    }
    Rewriter rewriter(text);
    for (const Step& step : steps) rewriter.put(step.character, step.change);
    rewriter.drop(rewriter.rest().size());  // as many as were left out before the first that stays
    rewriter.finish();
  }

 private:
  struct Step {
    std::string_view character;
    int change;  // as Rewriter::put has it
  };

  // SentencePiece knows no clusters. The bytes that were read.
  size_t add_longest(std::string_view text, std::vector<Step>& steps) const {
    const CharMap::Found found = map_.find_longest(text);
    if (found.size > 0) {
      replace(text.substr(0, found.size), found.replacement, steps);
      return found.size;
    }
    const size_t size = decode_utf8(text, 0).size;
    steps.push_back({text.substr(0, size), 0});
    return size;
  }

  // A cluster of less than six bytes that begins with a key is replaced as a whole.
  void add_cluster(std::string_view cluster, std::vector<Step>& steps) const {
    constexpr size_t kLongCluster = 6;
    if (cluster.size() < kLongCluster)
      if (const auto replacement = map_.find(cluster)) return replace(cluster, *replacement, steps);
    for (size_t at = 0; at < cluster.size();) {
      const std::string_view part = cluster.substr(at, decode_utf8(cluster, at).size);
      if (const auto replacement = map_.find(part))
        replace(part, *replacement, steps);
      else
        steps.push_back({part, 0});
      at += part.size();
    }
  }

  // One character stands for one; the last of the new ones are put in, or the last one so far stands for all that are
  // left, even where it was put in itself or stands for others: published offsets depend on it.
  static void replace(std::string_view old, std::string_view with, std::vector<Step>& steps) {
    const int64_t num_old = count_code_points(old), num_new = count_code_points(with);
    for (int64_t i = 0; i < num_new; ++i) {
      const size_t size = decode_utf8(with, 0).size;
      steps.push_back({with.substr(0, size), i < num_old ? 0 : 1});
      with.remove_prefix(size);
    }
    if (num_new < num_old && !steps.empty()) steps.back().change -= static_cast<int>(num_old - num_new);
  }

  CharMap map_;
  bool like_sentencepiece_;
};

}  // namespace

std::unique_ptr<Normalizer> parse_precompiled_normalizer(const JsonNode& node) {
  return std::make_unique<PrecompiledNormalizer>(CharMap(node.at("precompiled_charsmap")),
                                                 node.boolean("like_sentencepiece", false));
}

}  // namespace athanor::text::normalizers
