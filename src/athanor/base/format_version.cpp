#include "athanor/base/format_version.h"

#include <fmt/core.h>

namespace athanor::base {

void check_format(const std::string& what, int64_t got, int64_t expected, const std::string& hint) {
  if (got == expected) return;
  const bool older = got < expected;
  throw FormatError(fmt::format("'{}': format {}, expected {}: {} version wrote it", what, got, expected,
                                older ? "an earlier" : "a later"),
                    older ? hint : "read it with the version that wrote it, or a later one");
}

}  // namespace athanor::base
