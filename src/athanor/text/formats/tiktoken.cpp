#include "athanor/text/formats/tiktoken.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "athanor/base/check.h"
#include "athanor/text/base64.h"
#include "athanor/text/byte_level.h"
#include "athanor/text/trainers/train_types.h"

namespace athanor::text::formats {
namespace {

constexpr uint64_t kMaxRankFileBytes = uint64_t{256} << 20;

struct Rank {
  std::string token;
  int64_t rank = 0;
};

std::optional<Rank> read_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return std::nullopt;
  auto token = decode_base64(line.substr(0, space));
  Rank rank;
  const std::string_view number = line.substr(space + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank.rank);
  if (!token || token->empty() || error != std::errc{} || end != number.data() + number.size() ||
      rank.rank < 0)
    return std::nullopt;
  rank.token = std::move(*token);
  return rank;
}

std::string_view next_line(std::string_view& bytes) {
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

using Ranks = std::unordered_map<std::string_view, int64_t>;

// The two parts that the token is merged from at last: all merges of lower rank are done before.
std::pair<std::string, std::string> last_merge(std::string_view token, int64_t rank, const Ranks& ranks) {
  std::vector<size_t> cuts(token.size() + 1);  // where the parts begin, and the end
  for (size_t i = 0; i < cuts.size(); ++i) cuts[i] = i;
  while (cuts.size() > 3) {
    int64_t best = rank;
    size_t at = 0;
    for (size_t i = 0; i + 2 < cuts.size(); ++i) {
      const auto found = ranks.find(token.substr(cuts[i], cuts[i + 2] - cuts[i]));
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      at = i + 1;
    }
    if (at == 0) return {};  // no merges lead to it
    cuts.erase(cuts.begin() + static_cast<ptrdiff_t>(at));
  }
  return {std::string(token.substr(0, cuts[1])), std::string(token.substr(cuts[1]))};
}

}  // namespace

bool is_tiktoken(std::string_view bytes) {
  return read_line(next_line(bytes)).has_value();
}

std::string import_tiktoken(Env& env, const std::string& path, const std::string& pattern,
                            const TokenIds& special_tokens) {
  const std::string text = env.read_text(path, kMaxRankFileBytes);
  std::vector<Rank> tokens;
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = next_line(rest);
    if (line.empty()) continue;
    auto rank = read_line(line);
    check(rank.has_value(), "{}: line {}: got '{}', expected a token in base64 and its rank", path, number,
          line.substr(0, 60));
    tokens.push_back(std::move(*rank));
  }
  std::ranges::stable_sort(tokens, {}, &Rank::rank);
  Ranks ranks;
  for (const Rank& each : tokens)
    check(ranks.emplace(each.token, each.rank).second, "{}: the token of rank {} stands twice", path,
          each.rank);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    check(ranks.contains(std::string_view(&c, 1)), "{}: byte 0x{:02X} has no rank", path, byte);
  }
  TokenIds ids;
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Rank& each : tokens) {
    ids.emplace_back(bytes_to_chars(each.token), each.rank);
    if (each.token.size() < 2) continue;
    const auto [left, right] = last_merge(each.token, each.rank, ranks);
    if (!left.empty()) merges.emplace_back(bytes_to_chars(left), bytes_to_chars(right));
  }
  OrderedJson file = tokenizer_json(special_tokens);
  file.update(byte_level_json(pattern_regex(pattern)));
  file["model"] = bpe_json(ids, merges);
  file["model"]["ignore_merges"] = true;  // a word that is a token is one, whatever merges lead to it
  return to_text(file);
}

}  // namespace athanor::text::formats
