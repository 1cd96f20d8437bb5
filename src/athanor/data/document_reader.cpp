#include "athanor/data/document_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "athanor/base/check.h"

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDocumentChunkBytes = size_t{1} << 20;
constexpr size_t kBinaryProbeBytes = 4096;

bool is_json_lines(std::string_view path) {
  std::string name(without_compression(path));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.size() > 6 && name.ends_with(".jsonl");
}

void list_folder(Env& env, const SourceFile& folder, std::vector<std::string>& chain,
                 std::vector<SourceFile>& files) {
  std::error_code error;
  const std::string real = fs::canonical(folder.path, error).string();
  if (!error && std::find(chain.begin(), chain.end(), real) != chain.end())
    return;  // a link to a folder above
  chain.push_back(real);
  for (const std::string& name : env.list(folder.path)) {
    if (name.starts_with('.')) continue;
    SourceFile entry{join_path(folder.path, name),
                     folder.relative.empty() ? name : folder.relative + "/" + name, 0};
    if (env.is_folder(entry.path)) {
      list_folder(env, entry, chain, files);
    } else if (fs::is_regular_file(entry.path, error)) {  // a pipe or socket has no end to read to
      entry.size_bytes = env.open(entry.path)->size_bytes();
      files.push_back(std::move(entry));
    }
  }
  chain.pop_back();
}

// Length of the valid UTF-8 sequence at the start of text, 0 where there is none.
size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                        : (lead & 0xF0) == 0xE0       ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates and code points above 10FFFF show in the second byte.
  const unsigned char second = byte(1);
  const bool legal = !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second > 0x9F) &&
                     !(lead == 0xF0 && second < 0x90) && !(lead == 0xF4 && second > 0x8F);
  return legal ? length : 0;
}

// The whole stream, or "" and `binary` where its head says that it is no text.
std::string read_document(ByteSource& source, const std::string& path, bool& binary) {
  std::string text;
  size_t size_bytes = 0;
  binary = false;
  while (true) {
    if (text.size() - size_bytes < kDocumentChunkBytes)
      text.resize(size_bytes + size_bytes / 2 + kDocumentChunkBytes);
    const size_t got = source.read(text.data() + size_bytes, text.size() - size_bytes);
    const bool head = size_bytes < kBinaryProbeBytes;
    size_bytes += got;
    if (head && std::memchr(text.data(), 0, std::min(size_bytes, kBinaryProbeBytes)) != nullptr) {
      binary = true;
      return {};
    }
    check(size_bytes <= kMaxDocumentBytes, "'{}': more than {} bytes of text, expected smaller documents",
          path, kMaxDocumentBytes);
    if (got == 0) break;
  }
  text.resize(size_bytes);
  return text;
}

std::string keys_of(const simdjson::dom::object& object) {
  std::string keys;
  for (const auto& field : object) keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", field.key);
  return keys.empty() ? "none" : keys;
}

std::string_view text_of_line(simdjson::dom::parser& parser, const char* line, size_t size_bytes,
                              const std::string& name, int64_t number, const std::string& text_key) {
  simdjson::dom::element element;
  const auto code = parser.parse(line, size_bytes, false).get(element);
  check(code == simdjson::SUCCESS, "'{}' line {}: not JSON: {}", name, number, simdjson::error_message(code));
  simdjson::dom::object object;
  check(element.get(object) == simdjson::SUCCESS,
        "'{}' line {}: got a JSON value that is not an object, expected "
        "{{\"{}\": \"...\"}}",
        name, number, text_key);
  simdjson::dom::element value;
  int found = 0;
  for (const auto& field : object)
    if (field.key == text_key && ++found == 1) value = field.value;
  if (found == 0) fail("'{}' line {}: no key '{}', got {}", name, number, text_key, keys_of(object));
  check(found == 1, "'{}' line {}: the key '{}' stands there {} times, expected once", name, number, text_key,
        found);
  std::string_view text;
  check(value.get(text) == simdjson::SUCCESS, "'{}' line {}: '{}' is not a string", name, number, text_key);
  return text;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

std::vector<SourceFile> list_source_files(Env& env, const std::string& path) {
  std::vector<SourceFile> files;
  if (env.is_folder(path)) {
    std::vector<std::string> chain;
    list_folder(env, {path, "", 0}, chain, files);
    return files;
  }
  std::error_code error;
  if (env.exists(path))
    check(fs::is_regular_file(path, error), "'{}': is neither a file nor a folder, expected text to read",
          path);
  files.push_back({path, fs::path(path).filename().string(), env.open(path)->size_bytes()});
  return files;
}

void check_utf8(std::string_view text, const std::string& name) {
  if (simdjson::validate_utf8(text.data(), text.size())) return;
  size_t offset = 0, line = 1;
  while (offset < text.size()) {
    const size_t length = utf8_sequence(text.substr(offset));
    if (length == 0) break;
    if (text[offset] == '\n') ++line;
    offset += length;
  }
  throw Error(fmt::format("'{}': not UTF-8 at byte {} (line {}): got 0x{:02x}", name, offset, line,
                          offset < text.size() ? static_cast<unsigned char>(text[offset]) : 0),
              "convert it first, for example: iconv -f latin1 -t utf-8 OLD > NEW");
}

void for_each_json_line(ByteSource& source, const std::string& name, const std::string& text_key,
                        const std::function<void(std::string_view text, int64_t line)>& callback) {
  simdjson::dom::parser parser(kMaxDocumentBytes);
  std::string buffer;  // [0, begin) used, [begin, end) waiting, then padding that the parser may touch
  size_t begin = 0, end = 0;
  int64_t number = 0;
  const auto take = [&](size_t line_end) {
    const std::string_view line(buffer.data() + begin, line_end - begin);
    ++number;
    size_t skip = 0;
    if (number == 1 && line.starts_with("\xEF\xBB\xBF"))
      skip = 3;  // a byte-order mark is not part of the JSON
    if (!is_blank(line.substr(skip)))
      callback(text_of_line(parser, line.data() + skip, line.size() - skip, name, number, text_key), number);
    begin = line_end + 1;
  };
  while (true) {
    if (begin > 0) {
      std::memmove(buffer.data(), buffer.data() + begin, end - begin);
      end -= begin;
      begin = 0;
    }
    check(end <= kMaxDocumentBytes, "'{}' line {}: more than {} bytes, expected shorter lines", name,
          number + 1, kMaxDocumentBytes);
    buffer.resize(std::max(buffer.size(), end + end / 2 + kDocumentChunkBytes + simdjson::SIMDJSON_PADDING));
    const size_t searched = end;
    const size_t got = source.read(buffer.data() + end, buffer.size() - simdjson::SIMDJSON_PADDING - end);
    end += got;
    if (got == 0) {
      if (begin < end) take(end);
      return;
    }
    for (size_t from = searched; from < end;) {
      const void* newline = std::memchr(buffer.data() + from, '\n', end - from);
      if (newline == nullptr) break;
      from = static_cast<size_t>(static_cast<const char*>(newline) - buffer.data()) + 1;
      take(from - 1);
    }
  }
}

ReadReport for_each_document(Env& env, const std::string& path, const std::string& text_key,
                             const DocumentCallback& callback) {
  ReadReport report;
  const bool is_folder = env.is_folder(path);
  uint64_t finished_bytes = 0;
  for (const SourceFile& file : list_source_files(env, path)) {
    const auto source = open_bytes(env, file.path);
    DocumentPlace place{file.path, 0, 0};
    const auto deliver = [&](std::string_view text) {
      if (text.empty()) return;
      ++report.documents;
      report.text_bytes += static_cast<int64_t>(text.size());
      place.bytes_done = finished_bytes + source->raw_bytes();
      callback(text, place);
    };
    ++report.files;
    if (is_json_lines(file.path)) {
      for_each_json_line(*source, file.path, text_key, [&](std::string_view text, int64_t line) {
        place.line = line;
        deliver(text);
      });
    } else {
      bool binary = false;
      const std::string text = read_document(*source, file.path, binary);
      check(!binary || is_folder,
            "'{}': a binary file (a zero byte in its first {} bytes), expected UTF-8 text", file.path,
            kBinaryProbeBytes);
      if (binary) {
        --report.files;
        ++report.binary_files;
      } else {
        check_utf8(text, file.path);
        deliver(text);
      }
    }
    finished_bytes += file.size_bytes;
  }
  return report;
}

}  // namespace athanor
