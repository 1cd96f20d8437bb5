#include "athanor/launch/output/log_tail.h"

#include <algorithm>

namespace athanor::launch::output {

void LogTail::add(std::string_view bytes) {
  num_added_ += bytes.size();
  if (bytes.size() >= size_bytes_) {
    bytes_.assign(bytes.substr(bytes.size() - size_bytes_));
    next_ = 0;
    return;
  }
  const size_t room = std::min(size_bytes_ - bytes_.size(), bytes.size());
  bytes_.append(bytes.substr(0, room));
  bytes.remove_prefix(room);
  while (!bytes.empty()) {
    const size_t length = std::min(bytes.size(), size_bytes_ - next_);
    bytes.copy(bytes_.data() + next_, length);
    next_ = (next_ + length) % size_bytes_;
    bytes.remove_prefix(length);
  }
}

void LogTail::clear() {
  bytes_.clear();
  next_ = 0;
  num_added_ = 0;
}

std::string LogTail::text() const {
  return bytes_.substr(next_) + bytes_.substr(0, next_);
}

}  // namespace athanor::launch::output
