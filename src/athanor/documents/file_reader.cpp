#include "athanor/documents/file_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <memory>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/documents/csv_documents.h"
#include "athanor/documents/json_documents.h"
#include "athanor/documents/text_documents.h"
#include "athanor/documents/wet_documents.h"

namespace athanor::documents {
namespace {

bool is_named(std::string_view path, std::initializer_list<std::string_view> suffixes) {
  std::string name(without_compression_suffix(path));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

bool is_utf8_so_far(std::string_view head) {
  // Of a character that the head cuts in two.
  const size_t longest_tail = head.size() < kFormatProbeBytes ? 0 : 3;
  for (size_t cut = 0; cut <= longest_tail; ++cut)
    if (simdjson::validate_utf8(head.data(), head.size() - cut)) return true;
  return false;
}

std::string advice(const std::string& foreign) {
  if (foreign.starts_with("UTF-"))
    return fmt::format("convert it first, for example: iconv -f {} -t utf-8 OLD > NEW", foreign.substr(0, 6));
  if (foreign == "a Parquet file")
    return "convert it first: node scripts/parquet_to_jsonl.mjs FILE.parquet > FILE.jsonl";
  return "convert it to plain text or JSON lines first";
}

// Reads one file.
class FileReader {
 public:
  FileReader(const SourceFile& file, const ReadOptions& options, const DocumentCallback& callback,
             uint64_t bytes_before)
      : file_(file),
        name_(file.path == kStandardInput ? "standard input" : file.path),
        options_(options),
        callback_(callback),
        bytes_before_(bytes_before) {
    place_.file = file.path;
    records_ = {.text_key = options.text_key,
                .id_key = options.id_key,
                .whole_object = options.whole_object,
                .with_metadata = options.with_metadata,
                .max_bytes = options.max_document_bytes};
    if (options.refused)
      records_.refused = [this](const RecordPlace& place, const Refusal& why) { tell(place, why); };
  }

  ReadReport run(Env& env) {
    try {
      source_ = open(env);
      read();
    } catch (const BrokenSource& fault) {
      if (in_callback_ || !options_.refused) throw;
      tell({}, {fault.kind(), with_hint(fault)});
    } catch (const RecordError& fault) {
      if (in_callback_) throw;
      if (options_.refused)
        tell({}, fault.refusal());
      else if (may_leave_out(fault))
        report_.left_out.push_back({file_.relative, what_ + fault.refusal().detail});
      else
        throw;
    }
    if (report_.left_out.empty() && (place_.record > 0 || report_.refused == 0)) {
      ++report_.files;
      report_.names.push_back(file_.relative);
      report_.json_files = has_keys_ ? 1 : 0;
    }
    return std::move(report_);
  }

 private:
  std::unique_ptr<HeadSource> open(Env& env) {
    if (file_.path != kStandardInput) return open_bytes(env, file_.path);
    if (!options_.standard_input)
      throw ConfigError("'-': standard input cannot be read here, expected a file or folder");
    return open_bytes(options_.standard_input(), name_);
  }

  void read() {
    const std::string& format = options_.format;
    const std::string_view head = source_->head(kFormatProbeBytes);
    const auto take = [this](std::string_view text, const RecordPlace& place) { deliver(text, place); };
    const bool lines_by_name = format == "auto" && is_named(file_.path, {".jsonl", ".ndjson"});
    const bool csv = format == "csv" || (format == "auto" && is_named(file_.path, {".csv", ".tsv"}));
    JsonLayout layout = format == "auto" || format == "jsonl" ? recognize_json(head) : JsonLayout::none;
    if (format == "wet" || (format == "auto" && is_warc(head))) {
      what_ = "WARC, ";
      return for_each_wet_document(*source_, name_, records_, take);
    }
    // Where records are told, a zero byte is a fault of its record alone.
    const bool takes_zero_bytes = options_.refused && (lines_by_name || csv || format != "auto" ||
                                                       layout != JsonLayout::none || is_utf8_so_far(head));
    if (std::string foreign = foreign_format(head, takes_zero_bytes); !foreign.empty())
      return refuse_foreign(foreign);
    if (options_.whole_object && (csv || (layout == JsonLayout::none && !lines_by_name && format != "jsonl")))
      throw RecordError(name_, 0,
                        {std::string(kForeignFormat), "is not JSON, expected an object per conversation"});
    if (csv) {
      what_ = "CSV, ";
      has_keys_ = true;
      return for_each_csv_document(*source_, name_, records_, options_.csv_delimiter, take);
    }
    if (layout == JsonLayout::none && (lines_by_name || format == "jsonl")) layout = JsonLayout::lines;
    if (layout != JsonLayout::none) {
      what_ = "JSON, ";
      is_json_lines_ = lines_by_name || layout == JsonLayout::lines;
      is_json_value_ = !is_json_lines_;
      has_keys_ = true;
      return for_each_json_document(*source_, name_, records_, layout, take);
    }
    const TextReport parts = for_each_text_document(*source_, name_, options_.separators, records_, take);
    report_.separator_lines = parts.separator_lines;
    report_.empty += parts.blank_parts;
  }

  void refuse_foreign(const std::string& foreign) {
    if (options_.refused)
      return tell({}, {std::string(kForeignFormat), fmt::format("is {}; {}", foreign, advice(foreign))});
    if (file_.may_be_left_out)
      report_.left_out.push_back({file_.relative, foreign});
    else
      throw Error(fmt::format("'{}': is {}, expected UTF-8 text or JSON", file_.path, foreign),
                  advice(foreign));
  }

  // Settings, notebooks, tables and the like among text.
  bool may_leave_out(const RecordError& fault) const {
    const std::string& kind = fault.refusal().kind;
    return file_.may_be_left_out && options_.format == "auto" && place_.record == 0 &&
           (is_json_value_ || kind == kNoTextKey || kind == kForeignFormat) && !is_json_lines_;
  }

  static std::string with_hint(const Failure& failure) {
    return failure.hint().empty() ? failure.what() : fmt::format("{}; {}", failure.what(), failure.hint());
  }

  void move_to(const RecordPlace& place) {
    place_.line = place.line;
    place_.id = place.id;
    place_.bytes_done = bytes_before_ + (source_ ? source_->raw_bytes() : 0);
  }

  void deliver(std::string_view text, const RecordPlace& place) {
    move_to(place);
    if (text.empty()) {
      ++report_.empty;
    } else {
      ++report_.documents;
      report_.text_bytes += static_cast<int64_t>(text.size());
      report_.plain_separators += std::any_of(
          options_.separators.begin(), options_.separators.end(),
          [&](const std::string& separator) { return text.find(separator) != std::string_view::npos; });
      if (options_.with_metadata) place_.metadata = place.metadata;
      call([&] { callback_(text, place_); });
    }
    ++place_.record;
  }

  void tell(const RecordPlace& place, const Refusal& why) {
    move_to(place);
    if (options_.with_metadata) place_.metadata = "{}";
    ++report_.refused;
    call([&] { options_.refused(place_, why); });
    if (place.line > 0) ++place_.record;
  }

  // What the caller's own functions throw is no fault of the file.
  template <typename Call>
  void call(const Call& callback) {
    in_callback_ = true;
    callback();
    in_callback_ = false;
  }

  const SourceFile& file_;
  const std::string name_;  // for messages
  const ReadOptions& options_;
  const DocumentCallback& callback_;
  uint64_t bytes_before_;
  RecordOptions records_;
  std::unique_ptr<HeadSource> source_;
  DocumentPlace place_;
  ReadReport report_;
  std::string what_;  // the format, for a reason
  bool is_json_lines_ = false, is_json_value_ = false;
  bool has_keys_ = false;
  bool in_callback_ = false;
};

}  // namespace

ReadReport read_file(Env& env, const SourceFile& file, const ReadOptions& options,
                     const DocumentCallback& callback, uint64_t bytes_before) {
  return FileReader(file, options, callback, bytes_before).run(env);
}

}  // namespace athanor::documents
