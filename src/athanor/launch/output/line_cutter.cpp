#include "athanor/launch/output/line_cutter.h"

#include <utility>

namespace athanor::launch::output {

void LineCutter::add(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of("\r\n");
    std::string_view part = bytes.substr(0, end);
    if (!part.empty() && std::exchange(has_returned_, false)) line_.clear();
    while (line_.size() + part.size() > kLineBytes) {
      const size_t room = kLineBytes - line_.size();
      line_.append(part.substr(0, room));
      part.remove_prefix(room);
      take(std::exchange(line_, ""));
    }
    line_.append(part);
    if (end == std::string_view::npos) return;
    has_returned_ = bytes[end] == '\r';
    if (!has_returned_) take(std::exchange(line_, ""));
    bytes.remove_prefix(end + 1);
  }
}

void LineCutter::end(const Take& take) {
  if (!line_.empty()) take(std::exchange(line_, ""));
  has_returned_ = false;
}

}  // namespace athanor::launch::output
