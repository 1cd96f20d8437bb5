#include "athanor/documents/document_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/documents/file_reader.h"
#include "athanor/documents/text_key.h"

namespace athanor::documents {
namespace {

constexpr size_t kNamedFiles = 4;  // of those read, in a remark

constexpr std::array<const char*, 5> kFormats = {"auto", "text", "jsonl", "csv", "wet"};

void check_options(const ReadOptions& options) {
  if (std::find(kFormats.begin(), kFormats.end(), options.format) == kFormats.end()) {
    const std::string meant = nearest_name(options.format, {kFormats.begin(), kFormats.end()});
    throw ConfigError(fmt::format("format: got '{}', expected one of {}", printable(options.format),
                                  fmt::join(kFormats, ", ")),
                      meant.empty() ? "" : fmt::format("did you mean '{}'?", meant));
  }
  if (options.max_document_bytes == 0 || options.max_document_bytes > kMaxDocumentBytes)
    throw ConfigError(fmt::format("max_document_bytes: got {}, expected 1 to {}", options.max_document_bytes,
                                  kMaxDocumentBytes));
  const TextKey well_formed(options.text_key);
}

}  // namespace

void ReadReport::add(const ReadReport& other) {
  files += other.files;
  json_files += other.json_files;
  documents += other.documents;
  text_bytes += other.text_bytes;
  separator_lines += other.separator_lines;
  plain_separators += other.plain_separators;
  empty += other.empty;
  refused += other.refused;
  for (const std::string& name : other.names)
    if (names.size() < kNamedFiles) names.push_back(name);
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
    lines.push_back(fmt::format("{}: divided into documents at {} {} an end-of-text separator", where,
                                with_commas(report.separator_lines),
                                report.separator_lines == 1 ? "line that holds" : "lines that hold"));
  if (report.plain_separators > 0)
    lines.push_back(
        fmt::format("{}: {} {} an end-of-text separator such as {} inside a line; it is read as plain text",
                    where, with_commas(report.plain_separators),
                    report.plain_separators == 1 ? "document has" : "documents have", kEndOfTextWord));
  return lines;
}

void check_text_key_used(const ReadReport& report, const std::string& text_key) {
  if (report.json_files > 0) return;
  throw ConfigError(
      fmt::format("text key '{}': no JSON or CSV was read, where that key would be", printable(text_key)),
      "plain text has no keys: leave the key away");
}

ReadReport read_file_documents(Env& env, const SourceFile& file, const ReadOptions& options,
                               const DocumentCallback& callback) {
  check_options(options);
  return read_file(env, file, options, callback, 0);
}

ReadReport for_each_document(Env& env, const std::string& path, const ReadOptions& options,
                             const DocumentCallback& callback) {
  check_options(options);
  ReadReport report;
  SourceFiles found = list_sources(env, path);
  report.left_out = std::move(found.left_out);
  uint64_t finished_bytes = 0;
  for (const SourceFile& file : found.files) {
    report.add(read_file(env, file, options, callback, finished_bytes));
    finished_bytes += file.size_bytes;
  }
  return report;
}

}  // namespace athanor::documents
