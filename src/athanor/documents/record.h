// What all readers of records share: where the text of a record stands, and what becomes of records that cannot be
// read.
//
//   RecordOptions options{.text_key = "{title}\n{body}", .with_metadata = true};
//   options.refused = [&](const RecordPlace& place, const Refusal& why) { count(why.kind, place.line, why.detail); };
//
// A record is a JSON object, a row of CSV, a WARC record, or a part of plain text between two separators. A broken one
// is a RecordError. Where `refused` is set, the record is told to it and skipped instead, and reading goes on.
// The text key is the name of a key, a path or a template (text_key.h).
//
// Thread rule: plain data; callbacks run in the thread that reads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "athanor/base/error.h"

namespace athanor::documents {

// The largest record, because a record is held in memory.
constexpr uint64_t kMaxDocumentBytes = uint64_t{1} << 30;

// Why a record or a file was refused. The kind is one of a few phrases, so that a report can count them; the detail is
// for people: "at byte 17 ('nope'): ...".
struct Refusal {
  std::string kind;
  std::string detail;
};

// The kinds. Compressed data have "truncated gzip", "corrupt zstd" and so on (byte_source.h).
constexpr std::string_view kBrokenJson = "broken JSON";
constexpr std::string_view kNotAnObject = "not an object";
constexpr std::string_view kNoTextKey = "no text key";
constexpr std::string_view kTextNotString = "text is not a string";
constexpr std::string_view kTextKeyTwice = "text key twice";
constexpr std::string_view kInvalidUtf8 = "invalid UTF-8";
constexpr std::string_view kNulByte = "NUL byte";
constexpr std::string_view kLoneSurrogate = "lone surrogate";
constexpr std::string_view kTooLong = "too long";
constexpr std::string_view kTooDeep = "nested too deep";
constexpr std::string_view kBrokenCsvRow = "broken CSV row";
constexpr std::string_view kBrokenWarcRecord = "broken WARC record";
constexpr std::string_view kForeignFormat = "foreign format";  // a whole file: Parquet, a picture, UTF-16

class RecordError : public Error {
 public:
  RecordError(const std::string& what, Refusal refusal, const std::string& hint = "")
      : Error(what, hint), refusal_(std::move(refusal)) {}
  // "'a.json' line 3: DETAIL"
  RecordError(const std::string& name, int64_t line, Refusal refusal);
  const Refusal& refusal() const { return refusal_; }

 private:
  Refusal refusal_;
};

struct RecordPlace {
  int64_t line = 0;             // where the record begins, from 1; 0: it is the whole file
  std::string id = {};          // "" if it has none
  std::string metadata = "{}";  // the other keys of the record, as one line of JSON
};

using RecordCallback = std::function<void(std::string_view text, const RecordPlace& place)>;

struct RecordOptions {
  std::string text_key = "text";
  std::string id_key = "id";
  bool whole_object = false;   // JSON: the text is the object itself as JSON; the text key has no part
  bool with_metadata = false;  // fill RecordPlace::metadata
  uint64_t max_bytes = kMaxDocumentBytes;  // of a record as stored; longer ones are never held
  std::function<void(const RecordPlace& place, const Refusal& why)> refused = {};
};

}  // namespace athanor::documents
