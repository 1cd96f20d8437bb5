#include "athanor/base/human.h"

#include <fmt/core.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace athanor::base {
namespace {

// One decimal below a thousand of each unit; a value that would round up to the next unit moves there.
template <size_t N>
std::string scaled(double value, double base, const std::array<const char*, N>& units) {
  size_t unit = 0;
  while (unit + 1 < N && std::abs(value) >= base - (unit == 0 ? 0.5 : 0.05)) {
    value /= base;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0]) : fmt::format("{:.1f}{}", value, units[unit]);
}

struct Columns {
  uint32_t first, last;
};
// East Asian wide and full-width blocks, and the pictographs that terminals draw two columns wide.
constexpr Columns kWide[] = {{0x1100, 0x115f},  {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xa960, 0xa97f},
                             {0xac00, 0xd7a3},  {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                             {0xffe0, 0xffe6},  {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff},
                             {0x20000, 0x3fffd}};
constexpr Columns kNone[] = {
    {0x0300, 0x036f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}};

size_t columns_of(uint32_t code) {
  for (const auto& range : kNone)
    if (code >= range.first && code <= range.last) return 0;
  for (const auto& range : kWide)
    if (code >= range.first && code <= range.last) return 2;
  return 1;
}

// Controls, and the marks that reorder or break lines: a name with one of them would show as another name.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x2028 || code == 0x2029;
}

}  // namespace

std::string human_count(double count) {
  return scaled<5>(count, 1000.0, {"", " K", " M", " B", " T"});
}

std::string human_bytes(double size_bytes) {
  return scaled<6>(size_bytes, 1024.0, {" B", " KiB", " MiB", " GiB", " TiB", " PiB"});
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0)) return std::nullopt;
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c)
    if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
    if (unit.empty()) return std::nullopt;
  } else if (unit.ends_with('b')) {
    unit.pop_back();
  }
  constexpr std::string_view kUnits = "kmgtp";
  if (unit.size() > 1 || (unit.size() == 1 && kUnits.find(unit[0]) == std::string_view::npos))
    return std::nullopt;
  const size_t power = unit.empty() ? 0 : kUnits.find(unit[0]) + 1;
  const double size_bytes = std::round(std::ldexp(value, static_cast<int>(10 * power)));
  if (!(size_bytes < 0x1p62)) return std::nullopt;
  return static_cast<int64_t>(size_bytes);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds == 0) return "0s";
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  if (seconds > 1e9) return "years";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

std::string with_commas(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const size_t sign = value < 0 ? 1 : 0;
  for (size_t place = digits.size(); place > sign + 3;) digits.insert(place -= 3, ",");
  return digits;
}

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xf0 && lead < 0xf5   ? 4
                      : lead >= 0xe0 && lead < 0xf0 ? 3
                      : lead >= 0xc2 && lead < 0xe0 ? 2
                                                    : 0;
  if (size == 0 || text.size() < size) return {0xfffd, 1};
  uint32_t code = lead & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0xfffd, 1};
    code = (code << 6) | (byte(i) & 0x3f);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {0xfffd, 1};
  return {code, size};
}

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const auto [code, size] = first_code_point(text);
    const bool invalid = code == 0xfffd && size == 1;
    if (invalid || is_control(code)) {
      safe += '?';
    } else {
      safe += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return safe;
}

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const auto [code, size] = first_code_point(text);
    columns += columns_of(code);
    text.remove_prefix(size);
  }
  return columns;
}

std::string_view fit_columns(std::string_view text, size_t columns) {
  size_t end = 0, used = 0;
  while (end < text.size()) {
    const auto [code, size] = first_code_point(text.substr(end));
    used += columns_of(code);
    if (used > columns) break;
    end += size;
  }
  return text.substr(0, end);
}

}  // namespace athanor::base
