#include "athanor/corpus/passes/record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/documents/byte_source.h"

namespace athanor::corpus::passes {
namespace {

constexpr size_t kRecordChunkBytes = size_t{1} << 18;

// What stands for a byte inside of a JSON string: 0 the byte itself, 'u' \u00XX, else \ and that letter.
constexpr std::array<char, 256> kJsonEscapes = [] {
  std::array<char, 256> escapes{};
  for (size_t c = 0; c < 0x20; ++c) escapes[c] = 'u';
  escapes['\n'] = 'n', escapes['\r'] = 'r', escapes['\t'] = 't', escapes['\b'] = 'b', escapes['\f'] = 'f';
  escapes['"'] = '"', escapes['\\'] = '\\';
  return escapes;
}();

bool take(std::string_view& rest, std::string_view expected) {
  if (!rest.starts_with(expected)) return false;
  rest.remove_prefix(expected.size());
  return true;
}

// One escape behind its backslash. Only those that append_json_string() writes are known.
bool take_escape(std::string_view& rest, std::string& out) {
  if (rest.empty()) return false;
  const char letter = rest.front();
  rest.remove_prefix(1);
  if (letter == 'u') {
    unsigned value = 0;
    if (rest.size() < 4 || std::from_chars(rest.data(), rest.data() + 4, value, 16).ptr != rest.data() + 4 ||
        value >= 0x20)
      return false;
    out += static_cast<char>(value);
    rest.remove_prefix(4);
    return true;
  }
  constexpr std::string_view kLetters = "nrtbf\"\\", kBytes = "\n\r\t\b\f\"\\";
  const size_t at = kLetters.find(letter);
  if (at == std::string_view::npos) return false;
  out += kBytes[at];
  return true;
}

// What stands up to the closing quote.
bool take_string(std::string_view& rest, std::string& out) {
  out.clear();
  while (true) {
    size_t at = 0;
    while (at < rest.size() && rest[at] != '"' && rest[at] != '\\') ++at;
    if (at == rest.size()) return false;
    out.append(rest, 0, at);
    const bool ends = rest[at] == '"';
    rest.remove_prefix(at + 1);
    if (ends) return true;
    if (!take_escape(rest, out)) return false;
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t plain = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const char escape = kJsonEscapes[byte];
    if (escape == 0) continue;
    out.append(text, plain, at - plain);
    plain = at + 1;
    if (escape == 'u')
      out += fmt::format("\\u{:04x}", byte);
    else
      (out += '\\') += escape;
  }
  out.append(text, plain);
  out += '"';
}

void append_record(std::string& out, const Document& document) {
  out += "{\"id\":";
  append_json_string(out, document.id);
  out += ",\"text\":";
  append_json_string(out, document.text);
  out += ",\"source\":";
  append_json_string(out, document.source);
  out += ",\"metadata\":";
  out += document.metadata;
  out += "}\n";
}

struct RecordReader::State {
  std::string path;
  std::unique_ptr<HeadSource> source;
  std::string buffer = {};  // [begin, end) waits
  size_t begin = 0, end = 0;

  bool fill() {
    if (begin > 0) std::memmove(buffer.data(), buffer.data() + begin, end - begin);
    end -= begin, begin = 0;
    const size_t wanted = end + kRecordChunkBytes;
    if (buffer.size() < wanted) buffer.resize(std::max(wanted, buffer.size() + buffer.size() / 2));
    const size_t got = source->read(buffer.data() + end, buffer.size() - end);
    end += got;
    return got > 0;
  }

  // The next line without its break; an empty view at the end.
  std::string_view line() {
    for (size_t searched = 0;;) {
      const void* found = searched < end - begin
                              ? std::memchr(buffer.data() + begin + searched, '\n', end - begin - searched)
                              : nullptr;
      if (found != nullptr) {
        const size_t stop = static_cast<size_t>(static_cast<const char*>(found) - buffer.data());
        const std::string_view whole(buffer.data() + begin, stop - begin);
        begin = stop + 1;
        return whole;
      }
      searched = end - begin;
      if (!fill()) {
        check(begin == end, "'{}': its last line has no end", path);
        return {};
      }
    }
  }
};

RecordReader::RecordReader(Env& env, const std::string& path)
    : state_(std::make_unique<State>(State{.path = path, .source = open_bytes(env, path)})) {}

RecordReader::~RecordReader() = default;

bool RecordReader::next(Document& document) {
  std::string_view rest = state_->line();
  if (rest.empty()) return false;
  const bool ours = take(rest, "{\"id\":\"") && take_string(rest, document.id) &&
                    take(rest, ",\"text\":\"") && take_string(rest, document.text) &&
                    take(rest, ",\"source\":\"") && take_string(rest, document.source) &&
                    take(rest, ",\"metadata\":") && rest.ends_with('}');
  check(ours, "'{}': a line is no record of a corpus", state_->path);
  document.metadata = rest.substr(0, rest.size() - 1);
  return true;
}

}  // namespace athanor::corpus::passes
