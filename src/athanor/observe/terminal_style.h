// How text is drawn on a terminal: with or without colour, in Unicode or ASCII.
//
//   const TerminalStyle style{.color = true, .utf8 = true};
//   const std::string text = style.painted(kBold, style.shown(channel_name)) + style.glyphs().across;
//
// Thread rule: plain data and pure functions.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::observe {

constexpr const char* kPlain = "";
constexpr const char* kBold = "1";
constexpr const char* kDim = "2";
constexpr const char* kCyan = "36";
constexpr const char* kGreen = "32";
constexpr const char* kYellow = "33";

struct Glyphs {
  const char *top_left, *top_right, *bottom_left, *bottom_right, *across, *down, *done, *tip, *todo;
};

struct TerminalStyle {
  bool color = false;
  bool utf8 = true;

  const Glyphs& glyphs() const;
  std::string painted(const char* style, const std::string& text) const;
  // Control characters are replaced; without utf8 all characters beyond ASCII, too.
  std::string shown(std::string_view text) const;
};

}  // namespace athanor::observe
