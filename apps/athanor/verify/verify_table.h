// Results of `athanor verify`: the parallel layouts that it has tried, as rows of a table, as a summary by the values
// of each axis, and as JSON.
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
#include "athanor/verify/verify.h"

namespace athanor::apps {

struct TriedLayout {
  Layout layout;
  int ranks = 1;
  LayoutDifference difference;
  bool must_be_bitwise = false, holds = false;
  std::string error = {};  // the error that ended the try; "": none

  std::string verdict() const;
  Report report() const;
};

// A layout whose try ended with an error.
TriedLayout failed_layout(const Layout& layout, const std::string& error);
// `tried` with its layout set. For a result that was read from text, which has the layout's name but not its settings.
TriedLayout of_layout(TriedLayout tried, const Layout& layout);

struct LayoutTable {
  int most_ranks = 8;
  int64_t legal = 0;  // legal layouts; all of them, or a sample, were tried
  std::map<std::string, int64_t> refused;
  std::vector<TriedLayout> tried = {};

  int64_t failed() const;
  std::string counts() const;
  // For docs/results.md: the number of layouts and their largest difference, for all layouts and for each value of each
  // axis.
  std::string markdown() const;
  Report report() const;
};

// One line per layout.
std::string table_header();
std::string row_of(const TriedLayout& tried);

}  // namespace athanor::apps
