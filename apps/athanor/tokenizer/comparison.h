// The figures of `athanor tokenizer compare` as a table, as JSON and as a picture.
//
//   print(comparison_table(rows, {.color = true}));
//   env.write_atomically("compared.svg", comparison_svg(rows));
//
// Every tokenizer has the same channels in the same order. Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "apps/command_line/print.h"
#include "athanor/observe/terminal_style.h"
#include "athanor/text/token_usage.h"

namespace athanor::apps {

struct ComparedTokenizer {
  std::string name, path;
  TokenUsage usage;
};

std::string comparison_table(const std::vector<ComparedTokenizer>& rows, const TerminalStyle& style);
Json comparison_json(const std::vector<ComparedTokenizer>& rows);
// One self-contained SVG, light or dark as the reader's system is: bars of bytes per token and of tokens per word.
std::string comparison_svg(const std::vector<ComparedTokenizer>& rows);

}  // namespace athanor::apps
