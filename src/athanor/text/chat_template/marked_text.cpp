#include "athanor/text/chat_template/marked_text.h"

namespace athanor::text::chat_template {

void MarkedText::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  if (origin != kFromTemplate && marks_.empty()) marks_.resize(bytes_.size());
  bytes_ += bytes;
  if (origin != kFromTemplate || !marks_.empty()) marks_.resize(bytes_.size(), origin);
}

MarkedText& MarkedText::operator+=(const MarkedText& other) {
  if (!other.marks_.empty() && marks_.empty()) marks_.resize(bytes_.size());
  bytes_ += other.bytes_;
  if (!other.marks_.empty())
    marks_ += other.marks_;
  else if (!marks_.empty())
    marks_.resize(bytes_.size());
  return *this;
}

MarkedText MarkedText::substr(size_t begin, size_t count) const {
  MarkedText part;
  part.bytes_ = bytes_.substr(begin, count);
  if (!marks_.empty() && !part.bytes_.empty()) part.marks_ = marks_.substr(begin, count);
  return part;
}

void MarkedText::mark_answer(size_t begin) {
  if (begin >= bytes_.size()) return;
  if (marks_.empty()) marks_.resize(bytes_.size());
  for (size_t at = begin; at < marks_.size(); ++at)
    marks_[at] = static_cast<char16_t>(marks_[at] | kInAnswer);
}

}  // namespace athanor::text::chat_template
