// What the tests of the readers share: everything that a read gives, in short lines.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/documents/document_reader.h"
#include "data/fakes.h"

namespace athanor::tests {

class ReadingTest : public FolderTest {
 protected:
  // Reads and keeps all that came; broken records are told.
  std::vector<std::string> read(const std::string& path) {
    options_.refused = [&](const DocumentPlace& place, const Refusal& why) {
      refused_.push_back(fmt::format("{}:{}", place.line, why.kind));
      details_.push_back(why.detail);
    };
    return read_strictly(path);
  }
  // Without anybody to tell them to.
  std::vector<std::string> read_strictly(const std::string& path) {
    texts_.clear(), refused_.clear(), details_.clear(), metadata_.clear(), ids_.clear(), records_.clear();
    report_ = for_each_document(env_, path, options_, [&](std::string_view text, const DocumentPlace& place) {
      texts_.emplace_back(text);
      metadata_.push_back(place.metadata);
      ids_.push_back(place.id);
      records_.push_back(place.record);
    });
    return texts_;
  }
  std::string failure(const std::string& path) {
    options_.refused = nullptr;
    return failure_of([&] { read_strictly(path); });
  }

  ReadOptions options_;
  ReadReport report_;
  std::vector<std::string> texts_, metadata_, ids_, refused_, details_;
  std::vector<int64_t> records_;
};

// So many repetitions of a piece between a beginning and an end, never in memory as a whole.
class LongSource : public ByteSource {
 public:
  LongSource(std::string begin, std::string piece, uint64_t times, std::string end)
      : parts_{std::move(begin), std::move(piece), std::move(end)}, left_{1, times, 1} {}
  size_t read(char* out, size_t max_bytes) override {
    largest_read_ = std::max(largest_read_, max_bytes);
    size_t got = 0;
    while (got < max_bytes && part_ < 3) {
      if (left_[part_] == 0 || parts_[part_].empty()) {
        ++part_;
        continue;
      }
      const size_t size_bytes = std::min(max_bytes - got, parts_[part_].size() - at_);
      parts_[part_].copy(out + got, size_bytes, at_);
      got += size_bytes;
      at_ += size_bytes;
      if (at_ < parts_[part_].size()) continue;
      at_ = 0;
      --left_[part_];
    }
    done_ += got;
    return got;
  }
  uint64_t raw_bytes() const override { return done_; }
  size_t largest_read() const { return largest_read_; }  // what its reader had room for

 private:
  std::string parts_[3];
  uint64_t left_[3];
  size_t part_ = 0, at_ = 0, largest_read_ = 0;
  uint64_t done_ = 0;
};

}  // namespace athanor::tests
