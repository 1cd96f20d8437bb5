// A list of numbers that is written once and read from its begin, in a file as soon as it is long: what a writer of token
// files remembers of each document costs no memory that grows with them.
//
//   NumberFile lengths(env, "data/en.lengths.tmp");
//   lengths.add(17);
//   lengths.for_each([&](int64_t length) { total += length; });
//   lengths.remove();
//
// The file is a temporary one: nothing in it is synced. Thread rule: one thread. Errors: IoError.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/base/namespaces.h"

namespace athanor::data::building {

class NumberFile {
 public:
  static constexpr size_t kInMemory = size_t{1} << 16;  // numbers; half a megabyte

  NumberFile(Env& env, std::string path) : env_(env), path_(std::move(path)) {}
  void add(int64_t number) {
    waiting_.push_back(number);
    if (waiting_.size() == kInMemory) spill();
  }
  int64_t count() const { return num_spilled_ + static_cast<int64_t>(waiting_.size()); }

  template <typename Take>
  void for_each(const Take& take) {
    if (file_ != nullptr) file_->flush();
    const auto file = num_spilled_ > 0 ? env_.open(path_) : nullptr;
    std::vector<int64_t> chunk(file == nullptr ? 0 : kInMemory);
    for (int64_t done = 0; done < num_spilled_; done += static_cast<int64_t>(chunk.size())) {
      chunk.resize(static_cast<size_t>(std::min<int64_t>(kInMemory, num_spilled_ - done)));
      file->read(static_cast<uint64_t>(done) * sizeof(int64_t), chunk.data(), chunk.size() * sizeof(int64_t));
      for (const int64_t number : chunk) take(number);
    }
    for (const int64_t number : waiting_) take(number);
  }
  void remove() {
    if (file_ == nullptr) return;
    file_.reset();
    env_.remove_all(path_);
  }

 private:
  void spill() {
    if (file_ == nullptr) file_ = env_.create(path_);
    file_->append(waiting_.data(), waiting_.size() * sizeof(int64_t));
    num_spilled_ += static_cast<int64_t>(waiting_.size());
    waiting_.clear();
  }

  Env& env_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;  // null as long as all are in memory
  std::vector<int64_t> waiting_;
  int64_t num_spilled_ = 0;
};

}  // namespace athanor::data::building

namespace athanor {
using athanor::data::building::NumberFile;
}  // namespace athanor
