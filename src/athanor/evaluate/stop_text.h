// Stop strings of a generation: the text ends before the first of them, and no part of one is shown on the way.
//
//   StopText stops({"\nUser:", "###"});
//   std::string shown = stops.add(piece);   // held back: an end of the text that may begin a stop string
//   if (stops.found()) return;              // ends the generation
//   shown += stops.finish();                // what was held back, at the end of a text without one
//
// Of several the one that begins first counts. Thread rule: one thread. Errors: ConfigError for an
// empty string.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::evaluate {

class StopText {
 public:
  explicit StopText(std::vector<std::string> stops);

  std::string add(std::string_view piece);
  std::string finish();
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> found_;
};

}  // namespace athanor::evaluate
