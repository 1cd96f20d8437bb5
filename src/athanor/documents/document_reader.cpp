#include "athanor/documents/document_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/documents/json_documents.h"
#include "athanor/documents/text_documents.h"

namespace athanor::documents {
namespace {

constexpr size_t kNamedFiles = 4;  // of those read, in a remark

bool promises_json_lines(std::string_view path) {
  std::string name(without_compression_suffix(path));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.ends_with(".jsonl") || name.ends_with(".ndjson");
}

// Reads one file. If it must be left out, the reason is returned.
class FileReader {
 public:
  FileReader(const ReadOptions& options, ReadReport& report) : options_(options), report_(report) {}

  // The reason why it is left out, or "". A file with documents is never left out.
  std::string read(HeadSource& source, const SourceFile& file, bool may_leave_out,
                   const JsonCallback& deliver) {
    const std::string_view head = source.head(kFormatProbeBytes);
    if (std::string foreign = foreign_format(head); !foreign.empty()) {
      if (may_leave_out) return foreign;
      throw Error(fmt::format("'{}': is {}, expected UTF-8 text or JSON", file.path, foreign),
                  advice(foreign));
    }
    const bool promised = promises_json_lines(file.path);
    JsonLayout layout = recognize_json(head);
    if (layout == JsonLayout::none && promised) layout = JsonLayout::lines;
    if (layout == JsonLayout::none) {
      report_.separator_lines +=
          for_each_text_document(source, file.path, options_.separators,
                                 [&](std::string_view text, int64_t line) { deliver(text, {.line = line}); });
      return "";
    }
    int64_t delivered = 0;
    try {
      for_each_json_document(source, file.path, options_.text_key, layout,
                             [&](std::string_view text, const JsonPlace& place) {
                               ++delivered;
                               deliver(text, place);
                             });
    } catch (const JsonError& error) {
      // Settings, notebooks and the like among text.
      if (!may_leave_out || promised || layout == JsonLayout::lines || delivered > 0) throw;
      return "JSON, " + error.reason();
    }
    ++report_.json_files;
    return "";
  }

 private:
  static std::string advice(const std::string& foreign) {
    if (foreign.starts_with("UTF-"))
      return fmt::format("convert it first, for example: iconv -f {} -t utf-8 OLD > NEW",
                         foreign.substr(0, 6));
    return "convert it to plain text or JSON lines first";
  }

  const ReadOptions& options_;
  ReadReport& report_;
};

}  // namespace

void ReadReport::add(const ReadReport& other) {
  files += other.files;
  json_files += other.json_files;
  documents += other.documents;
  text_bytes += other.text_bytes;
  separator_lines += other.separator_lines;
  plain_separators += other.plain_separators;
  names.insert(names.end(), other.names.begin(), other.names.end());
  left_out.insert(left_out.end(), other.left_out.begin(), other.left_out.end());
}

std::vector<std::string> remarks(const ReadReport& report, const std::string& path) {
  std::vector<std::string> lines;
  const std::string where = printable(path);
  if (!report.left_out.empty()) {
    constexpr size_t kShown = 20;
    std::string read = with_commas(report.files) + (report.files == 1 ? " file read" : " files read");
    if (report.files > 0 && static_cast<size_t>(report.files) <= kNamedFiles &&
        report.names.size() == static_cast<size_t>(report.files))
      read += printable(fmt::format(" ({})", fmt::join(report.names, ", ")));
    std::vector<std::string> out;
    for (const LeftOut& entry : report.left_out) {
      if (out.size() == kShown) break;
      out.push_back(printable(fmt::format("{} ({})", entry.file, entry.reason)));
    }
    const size_t more = report.left_out.size() - out.size();
    lines.push_back(fmt::format("{}: {}, {} left out: {}{}", where, read,
                                with_commas(static_cast<int64_t>(report.left_out.size())),
                                fmt::join(out, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  if (report.separator_lines > 0)
    lines.push_back(fmt::format("{}: divided into documents at {} lines that hold an end-of-text separator",
                                where, with_commas(report.separator_lines)));
  if (report.plain_separators > 0)
    lines.push_back(
        fmt::format("{}: {} documents have an end-of-text separator such as {} inside a line; it is read "
                    "as plain text",
                    where, with_commas(report.plain_separators), kEndOfTextWord));
  return lines;
}

void check_text_key_used(const ReadReport& report, const std::string& text_key) {
  if (report.json_files > 0) return;
  throw ConfigError(
      fmt::format("text key '{}': no JSON was read, where that key would be", printable(text_key)),
      "plain text has no keys: leave the key away");
}

ReadReport for_each_document(Env& env, const std::string& path, const ReadOptions& options,
                             const DocumentCallback& callback) {
  ReadReport report;
  const bool is_folder = env.is_folder(path);
  SourceFiles found = list_sources(env, path);
  report.left_out = std::move(found.left_out);
  uint64_t finished_bytes = 0;
  FileReader reader(options, report);
  for (const SourceFile& file : found.files) {
    const auto source = open_bytes(env, file.path);
    DocumentPlace place{.file = file.path};
    const auto deliver = [&](std::string_view text, const JsonPlace& found_at) {
      if (text.empty()) return;
      ++report.documents;
      report.text_bytes += static_cast<int64_t>(text.size());
      report.plain_separators += std::any_of(
          options.separators.begin(), options.separators.end(),
          [&](const std::string& separator) { return text.find(separator) != std::string_view::npos; });
      place.line = found_at.line;
      place.id = found_at.id;
      place.bytes_done = finished_bytes + source->raw_bytes();
      callback(text, place);
    };
    if (std::string reason = reader.read(*source, file, is_folder, deliver); !reason.empty()) {
      report.left_out.push_back({file.relative, std::move(reason)});
    } else {
      ++report.files;
      if (report.names.size() < kNamedFiles) report.names.push_back(file.relative);
    }
    finished_bytes += file.size_bytes;
  }
  return report;
}

}  // namespace athanor::documents
