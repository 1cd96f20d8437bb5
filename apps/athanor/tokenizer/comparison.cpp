#include "apps/athanor/tokenizer/comparison.h"

#include <fmt/core.h>

#include <algorithm>

#include "athanor/base/columns.h"
#include "athanor/base/human.h"

namespace athanor::apps {
namespace {

using Cells = std::vector<std::vector<std::string>>;
using Measure = std::optional<double> (TokenCounts::*)() const;

std::string two_places(std::optional<double> value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

std::string percent(std::optional<double> share) {
  if (!share) return "-";
  const double value = 100 * *share;
  if (value == 0) return "0 %";
  return value < 0.1 ? fmt::format("{:.4f} %", value) : fmt::format("{:.1f} %", value);
}

// The first row is the headline; the first column stands left, the others right. `best`: the column to be bold in each
// row, 0 for none.
std::string grid(const Cells& cells, const std::vector<size_t>& best, const TerminalStyle& style) {
  std::vector<size_t> widths(cells[0].size(), 0);
  for (const auto& row : cells)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  std::string text;
  for (size_t r = 0; r < cells.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < cells[r].size(); ++i) {
      const std::string& cell = cells[r][i];
      const std::string space(widths[i] - display_width(cell), ' ');
      const bool is_bold = i > 0 && best[r] == i;
      const std::string shown = r == 0    ? style.painted(kDim, cell)
                                : is_bold ? style.painted(kBold, cell)
                                          : cell;
      if (i > 0) line += "   ";
      line += i == 0 ? shown + space : space + shown;
    }
    text += "  " + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string headline(const std::string& text, const TerminalStyle& style) {
  return style.painted(kCyan, text) + "\n";
}

std::string summary(const std::vector<ComparedTokenizer>& rows, const TerminalStyle& style) {
  Cells cells = {{"tokenizer", "pieces", "unused", "tokens", "unknown", "bytes/token", "tokens/word"}};
  for (const ComparedTokenizer& row : rows) {
    const TokenCounts all = row.usage.all();
    const auto pieces = static_cast<double>(std::max<int64_t>(row.usage.num_pieces(), 1));
    cells.push_back({style.shown(row.name), with_commas(row.usage.num_pieces()),
                     percent(static_cast<double>(row.usage.num_unused()) / pieces), with_commas(all.tokens),
                     percent(all.unknown_share()), two_places(all.bytes_per_token()),
                     two_places(all.fertility())});
  }
  return grid(cells, std::vector<size_t>(cells.size(), 0), style);
}

std::string by_channel(const std::vector<ComparedTokenizer>& rows, const TerminalStyle& style,
                       Measure measure, bool more_is_better, const std::string& of,
                       int64_t TokenCounts::*amount) {
  Cells cells = {{"channel", of}};
  for (const ComparedTokenizer& row : rows) cells[0].push_back(style.shown(row.name));
  std::vector<size_t> best = {0};
  const auto& channels = rows[0].usage.channels();
  for (size_t c = 0; c < channels.size(); ++c) {
    cells.push_back({style.shown(channels[c].first), with_commas(channels[c].second.*amount)});
    size_t first = 0;
    double first_value = 0;
    for (const ComparedTokenizer& row : rows) {
      const std::optional<double> value = (row.usage.channels()[c].second.*measure)();
      cells.back().push_back(two_places(value));
      if (!value || (first != 0 && (more_is_better ? *value <= first_value : *value >= first_value)))
        continue;
      first = cells.back().size() - 1;
      first_value = *value;
    }
    best.push_back(first);
  }
  return grid(cells, best, style);
}

Json json_of(const TokenCounts& counts) {
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(nullptr); };
  return {{"bytes", counts.bytes},
          {"words", counts.words},
          {"tokens", counts.tokens},
          {"unknown", counts.unknown},
          {"bytes_per_token", number(counts.bytes_per_token())},
          {"fertility", number(counts.fertility())},
          {"unknown_share", number(counts.unknown_share())}};
}

}  // namespace

std::string comparison_table(const std::vector<ComparedTokenizer>& rows, const TerminalStyle& style) {
  return headline("all texts", style) + summary(rows, style) + "\n" + headline("bytes per token", style) +
         by_channel(rows, style, &TokenCounts::bytes_per_token, true, "bytes", &TokenCounts::bytes) + "\n" +
         headline("tokens per word", style) +
         by_channel(rows, style, &TokenCounts::fertility, false, "words", &TokenCounts::words);
}

Json comparison_json(const std::vector<ComparedTokenizer>& rows) {
  Json list = Json::array();
  for (const ComparedTokenizer& row : rows) {
    Json entry = {{"name", row.name},
                  {"path", row.path},
                  {"pieces", row.usage.num_pieces()},
                  {"unused_pieces", row.usage.num_unused()},
                  {"all", json_of(row.usage.all())},
                  {"channels", Json::object()}};
    for (const auto& [channel, counts] : row.usage.channels()) entry["channels"][channel] = json_of(counts);
    list.push_back(std::move(entry));
  }
  return {{"tokenizers", std::move(list)}};
}

}  // namespace athanor::apps
