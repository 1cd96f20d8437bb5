// What `athanor verify` says of the layouts that it has tried: rows of a table, a summary by the values of each axis,
// JSON.
//
//   LayoutTable table{.most_ranks = 8, .legal = 5208, .refused = walk.refused};
//   table.tried.push_back(tried);             // one by one, printed as they come: row_of(tried)
//   std::cout << table.markdown();            // or counts(), or report().to_json()
//
// Thread rule: plain data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/observe/report.h"
#include "athanor/train/verify.h"

namespace athanor {

struct TriedLayout {
  ParallelConfig layout;
  int64_t servers = 0;  // parameter servers, beside the ranks of the layout
  int ranks = 1;
  LayoutDifference difference;
  bool must_be_bitwise = false, holds = false;
  std::string error = {};  // what ended it, if anything did

  std::string verdict() const;
  Report report() const;
};

// What could not be tried to its end.
TriedLayout failed_layout(const ParallelConfig& layout, const std::string& error);
// The same answer, of this layout: where it was read from a text, which names the layout but does not spell it out.
TriedLayout of_layout(TriedLayout tried, const ParallelConfig& layout);

struct LayoutTable {
  int most_ranks = 8;
  int64_t legal = 0;  // of which all were tried, or a sample
  std::map<std::string, int64_t> refused;
  std::vector<TriedLayout> tried = {};

  int64_t failed() const;
  std::string counts() const;
  // For docs/results.md: of all layouts, and of those with each value of each axis, how many there are and what is the
  // largest difference.
  std::string markdown() const;
  Report report() const;
};

// One layout a line.
std::string table_header();
std::string row_of(const TriedLayout& tried);

}  // namespace athanor
