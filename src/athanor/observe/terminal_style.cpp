#include "athanor/observe/terminal_style.h"

#include <fmt/core.h>

#include "athanor/base/human.h"

namespace athanor::observe {

const Glyphs& TerminalStyle::glyphs() const {
  static constexpr Glyphs kUnicode = {"╭", "╮", "╰", "╯", "─", "│", "━", "╸", "─"};
  static constexpr Glyphs kAscii = {"+", "+", "+", "+", "-", "|", "=", ">", "-"};
  return utf8 ? kUnicode : kAscii;
}

std::string TerminalStyle::painted(const char* style, const std::string& text) const {
  const bool paint = color && style[0] != '\0' && !text.empty();
  return paint ? fmt::format("\x1b[{}m{}\x1b[0m", style, text) : text;
}

std::string TerminalStyle::shown(std::string_view text) const {
  std::string safe = printable(text);
  if (utf8) return safe;
  std::string ascii;
  for (std::string_view rest = safe; !rest.empty();) {
    const auto [code, size] = first_code_point(rest);
    ascii += code < 0x80    ? static_cast<char>(code)
             : code == 0xb5 ? 'u'
             : code == 0xb7 ? '-'
             : code == 0xd7 ? 'x'
                            : '?';
    rest.remove_prefix(size);
  }
  return ascii;
}

}  // namespace athanor::observe
