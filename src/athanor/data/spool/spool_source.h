// A text that has no end yet, read record by record.
//
// Kinds: captured_input.h (standard input), followed_folder.h. Thread rule: one thread. Errors: those of documents/ for records
// that are no text, IoError for a disk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "athanor/data/spool/spool_folder.h"

namespace athanor::data::spool {

using TakeRecord =
    std::function<void(std::string_view text, const SpoolPosition& at, const std::string& place)>;

class SpoolSource {
 public:
  enum class Got : uint8_t { records, nothing_yet, end };
  virtual ~SpoolSource() = default;
  // The next records, in order; never waits for text to come.
  virtual Got read(const TakeRecord& take) = 0;
  // What stands before `position` is not read again: it may be removed.
  virtual void done_until(const SpoolPosition& /*position*/) {}
};

}  // namespace athanor::data::spool
