#include "athanor/text/chat_template/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "athanor/text/unicode.h"

namespace athanor::text::chat_template {
namespace {

class JsonWriter {
 public:
  JsonWriter(Evaluator& self, const JsonStyle& style) : self_(self), style_(style) {}

  void write(const Value& value) {
    self_.spend(1);
    self_.check_size(out_.size());
    if (value.is_none()) return put("null");
    if (const auto* const b = value.get<bool>()) return put(*b ? "true" : "false");
    if (const auto* const i = value.get<int64_t>()) return put(std::to_string(*i));
    if (const auto* const d = value.get<double>())
      return put(std::isnan(*d)   ? "NaN"
                 : std::isinf(*d) ? (*d > 0 ? "Infinity" : "-Infinity")
                                  : float_text(*d));
    if (value.text()) return write_text(*value.text());
    if (value.list()) return write_list(value.list()->items);
    if (!value.map()) self_.fail(fmt::format("tojson: got {}, which JSON cannot hold", value.type_name()));
    write_map(*value.map());
  }

  MarkedText out_;

 private:
  void put(std::string_view text) { out_.append(text, kFromTemplate); }

  void begin_line() {
    if (!style_.margin) return;
    put("\n");
    for (int i = 0; i < level_; ++i) put(*style_.margin);
  }

  void write_list(const List& items) {
    put("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      begin_line();
      write(items[i]);
    }
    --level_;
    if (!items.empty()) begin_line();
    put("]");
  }

  void write_map(const Map& map) {
    std::vector<const std::pair<MarkedText, Value>*> entries;
    for (const auto& entry : map.entries) entries.push_back(&entry);
    if (style_.sort_keys)
      std::ranges::sort(entries, {},
                        [](const auto* entry) -> const std::string& { return entry->first.bytes(); });
    put("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      begin_line();
      write_text(entries[i]->first);
      put(style_.key_separator);
      write(entries[i]->second);
    }
    --level_;
    if (!entries.empty()) begin_line();
    put("}");
  }

  void write_text(const MarkedText& text) {
    self_.spend_bytes(text.size());
    put("\"");
    const std::string& bytes = text.bytes();
    for (size_t at = 0; at < bytes.size();) {
      const CodePoint c = decode_utf8(bytes, at);
      constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
      const size_t known =
          c.value < 0x80 ? kEscaped.find(static_cast<char>(c.value)) : std::string_view::npos;
      if (known != std::string_view::npos)
        out_.append(std::string{'\\', kLetters[known]}, text.origin(at));
      else if (c.value < 0x20 || (style_.ascii && c.value >= 0x7F && c.value != kInvalidByte))
        out_.append(escaped(c.value), text.origin(at));
      else
        out_ += text.substr(at, c.size);
      at += c.size;
    }
    put("\"");
  }

  static std::string escaped(uint32_t c) {
    if (c < 0x10000) return fmt::format("\\u{:04x}", c);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
  }

  Evaluator& self_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

MarkedText json_text(Evaluator& self, const Value& value, const JsonStyle& style) {
  JsonWriter writer(self, style);
  writer.write(value);
  return std::move(writer.out_);
}

}  // namespace athanor::text::chat_template
