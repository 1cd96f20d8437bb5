// Text whose bytes know where they came from: written in the template, or taken from a message of the conversation.
//
//   MarkedText greeting("Hello ");                          // kFromTemplate
//   greeting += MarkedText("Ada", message_origin(0));       // bytes of message 0
//   greeting.substr(6).origin(0);                           // message_origin(0): what copies bytes copies their marks
//
// Rendered text is encoded by these marks: special tokens count only where the template wrote them, so that a message
// cannot forge the end of its turn. The bit kInAnswer marks what stands in {% generation %}. Thread rule: plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::text::chat_template {

using Origin = char16_t;
constexpr Origin kFromTemplate = 0;
constexpr Origin kFromData = 1;  // from the conversation, but no text of a message: roles, tools, documents
constexpr Origin kInAnswer = 0x8000;
constexpr size_t kMaxMessages = 0x7FF0;
// Message i, from 0 to kMaxMessages - 1.
constexpr Origin message_origin(size_t i) {
  return static_cast<Origin>(i + 2);
}

class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string_view bytes, Origin origin = kFromTemplate) { append(bytes, origin); }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Of the byte at an offset, without kInAnswer.
  Origin origin(size_t at) const {
    return marks_.empty() ? kFromTemplate : static_cast<Origin>(marks_[at] & ~kInAnswer);
  }
  bool in_answer(size_t at) const { return !marks_.empty() && (marks_[at] & kInAnswer) != 0; }

  void append(std::string_view bytes, Origin origin);
  MarkedText& operator+=(const MarkedText& other);
  MarkedText substr(size_t begin, size_t count = std::string_view::npos) const;
  void mark_answer(size_t begin);  // all bytes from `begin` on

 private:
  std::string bytes_;
  std::u16string marks_;  // one per byte; empty: all kFromTemplate
};

}  // namespace athanor::text::chat_template
