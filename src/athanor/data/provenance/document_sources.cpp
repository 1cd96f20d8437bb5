#include "athanor/data/provenance/document_sources.h"

#include <cstring>
#include <limits>
#include <string_view>

#include "athanor/base/check.h"

namespace athanor::data::provenance {
namespace {

constexpr std::string_view kSourcesMagic("ATHSRC01");
constexpr uint64_t kPlaceBytes = 2 * sizeof(uint32_t);
constexpr uint64_t kSegmentBytes = 4 * sizeof(uint64_t);
constexpr uint64_t kCountsBytes = 5 * sizeof(uint64_t), kHashDigits = 32;
constexpr uint64_t kFarthest = uint64_t{1} << 62;  // record or line of a segment: sums stay below 2^63
constexpr size_t kSourcesBufferBytes = size_t{1} << 16;

template <typename T>
void append_raw(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T load_raw(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// From a number of a segment to that of a document; 2^32 or more if 32 bits do not reach.
uint64_t distance(uint64_t from, int64_t to) {
  const auto target = static_cast<uint64_t>(to);
  return target < from ? std::numeric_limits<uint64_t>::max() : target - from;
}

}  // namespace

void SourcesWriter::flush() {
  hash_.update(buffer_);
  file_->append(buffer_);
  buffer_.clear();
}

void SourcesWriter::add(const DocumentSource& source) {
  check(source.record >= 0 && source.line >= 0, "'{}': got record {} at line {}, expected none below zero",
        path_, source.record, source.line);
  if (file_ == nullptr) {
    file_ = env_.create(path_);
    buffer_ = kSourcesMagic;
  }
  const bool is_new_file = name_ends_.empty() || source.file != last_file_;
  if (is_new_file) {
    last_file_ = source.file;
    names_ += source.file;
    name_ends_.push_back(names_.size());
  }
  constexpr uint64_t kReach = std::numeric_limits<uint32_t>::max();
  if (is_new_file || distance(segments_.back().record, source.record) > kReach ||
      distance(segments_.back().line, source.line) > kReach)
    segments_.push_back({static_cast<uint64_t>(num_documents_), name_ends_.size() - 1,
                         static_cast<uint64_t>(source.record), static_cast<uint64_t>(source.line)});
  append_raw(buffer_, static_cast<uint32_t>(distance(segments_.back().record, source.record)));
  append_raw(buffer_, static_cast<uint32_t>(distance(segments_.back().line, source.line)));
  ++num_documents_;
  if (buffer_.size() >= kSourcesBufferBytes) flush();
}

void SourcesWriter::finish(int64_t num_tokens) {
  check(file_ != nullptr, "'{}': got no document, expected one", path_);
  for (const SourceSegment& segment : segments_) {
    append_raw(buffer_, segment);
    if (buffer_.size() >= kSourcesBufferBytes) flush();
  }
  for (const uint64_t end : name_ends_) append_raw(buffer_, end);
  buffer_ += names_;
  for (const uint64_t count : {static_cast<uint64_t>(num_documents_), static_cast<uint64_t>(num_tokens),
                               segments_.size(), name_ends_.size(), names_.size()})
    append_raw(buffer_, count);
  flush();
  file_->append(hash_.hex());
  file_->sync();
  file_->close();
}

void DocumentSources::refuse(const std::string& why) const {
  throw Error(fmt::format("'{}': {}", path_, why),
              "remove it if nobody asks where documents came from, or make the token file again");
}

DocumentSources::DocumentSources(const std::string& path, int64_t num_documents, int64_t num_tokens)
    : path_(path), file_(path), num_documents_(num_documents) {
  const uint64_t size_bytes = file_.size_bytes();
  constexpr uint64_t kEndBytes = kCountsBytes + kHashDigits;
  if (size_bytes < kSourcesMagic.size() + kEndBytes ||
      std::memcmp(file_.data(), kSourcesMagic.data(), kSourcesMagic.size()) != 0)
    refuse("does not begin with ATHSRC01, expected the sources of documents");
  const std::byte* counts = file_.data() + size_bytes - kEndBytes;
  const auto count = [&](uint64_t index) { return load_raw<uint64_t>(counts + index * sizeof(uint64_t)); };
  const uint64_t documents = count(0), tokens = count(1), segments = count(2), files = count(3);
  names_bytes_ = count(4);
  if (documents != static_cast<uint64_t>(num_documents) || tokens != static_cast<uint64_t>(num_tokens))
    refuse(fmt::format("is of {} tokens in {} documents, expected {} in {} as in the .idx", tokens, documents,
                       num_tokens, num_documents));
  // Bounding each by the size first keeps the sum from overflowing.
  if (documents > size_bytes / kPlaceBytes || segments > size_bytes / kSegmentBytes ||
      files > size_bytes / sizeof(uint64_t) || names_bytes_ > size_bytes ||
      size_bytes != kSourcesMagic.size() + documents * kPlaceBytes + segments * kSegmentBytes +
                        files * sizeof(uint64_t) + names_bytes_ + kEndBytes)
    refuse(fmt::format("got {} bytes, which are not those of {} documents of {} files in {} segments",
                       size_bytes, documents, files, segments));
  num_segments_ = static_cast<int64_t>(segments);
  num_files_ = static_cast<int64_t>(files);
  check_tables();
}

void DocumentSources::check_tables() const {
  if (num_documents_ > 0 && num_segments_ == 0) refuse("has documents but no segment of them");
  uint64_t before = 0;
  for (int64_t s = 0; s < num_segments_; ++s) {
    const SourceSegment at = segment(s);
    const bool follows = s == 0 ? at.first_document == 0 : at.first_document > before;
    if (!follows || at.first_document >= static_cast<uint64_t>(num_documents_) ||
        at.file >= static_cast<uint64_t>(num_files_) || at.record > kFarthest || at.line > kFarthest)
      refuse(fmt::format("segment {} is damaged: document {}, file {}, record {}, line {}", s,
                         at.first_document, at.file, at.record, at.line));
    before = at.first_document;
  }
  before = 0;
  for (int64_t f = 0; f < num_files_; ++f) {
    if (name_end(f) < before || name_end(f) > names_bytes_)
      refuse(fmt::format("the name of file {} is damaged", f));
    before = name_end(f);
  }
  if (before != names_bytes_) refuse(fmt::format("got {} bytes of names, expected {}", names_bytes_, before));
}

SourceSegment DocumentSources::segment(int64_t index) const {
  return load_raw<SourceSegment>(file_.data() + kSourcesMagic.size() +
                                 static_cast<uint64_t>(num_documents_) * kPlaceBytes +
                                 static_cast<uint64_t>(index) * kSegmentBytes);
}

uint64_t DocumentSources::name_end(int64_t file) const {
  return load_raw<uint64_t>(
      file_.data() + kSourcesMagic.size() + static_cast<uint64_t>(num_documents_) * kPlaceBytes +
      static_cast<uint64_t>(num_segments_) * kSegmentBytes + static_cast<uint64_t>(file) * sizeof(uint64_t));
}

DocumentSource DocumentSources::of(int64_t document) const {
  check(document >= 0 && document < num_documents_, "'{}': document {}, expected 0 to {}", path_, document,
        num_documents_ - 1);
  int64_t first = 0, end = num_segments_;  // one in [first, end) is the answer
  while (end - first > 1) {
    const int64_t middle = (first + end) / 2;
    (segment(middle).first_document <= static_cast<uint64_t>(document) ? first : end) = middle;
  }
  const SourceSegment at = segment(first);
  const std::byte* place =
      file_.data() + kSourcesMagic.size() + static_cast<uint64_t>(document) * kPlaceBytes;
  const auto file = static_cast<int64_t>(at.file);
  const uint64_t begin = file == 0 ? 0 : name_end(file - 1);
  const char* names = reinterpret_cast<const char*>(file_.data()) + file_.size_bytes() - kHashDigits -
                      kCountsBytes - names_bytes_;
  return {std::string(names + begin, name_end(file) - begin),
          static_cast<int64_t>(at.record + load_raw<uint32_t>(place)),
          static_cast<int64_t>(at.line + load_raw<uint32_t>(place + sizeof(uint32_t)))};
}

void DocumentSources::check_hash() const {
  const uint64_t before = file_.size_bytes() - kHashDigits;
  Hash128 hash;
  hash.update(file_.data(), before);
  if (std::memcmp(hash.hex().data(), file_.data() + before, kHashDigits) != 0)
    refuse("its bytes are not those that its hash is of");
}

}  // namespace athanor::data::provenance
