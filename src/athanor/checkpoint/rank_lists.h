// Lists that the ranks of a group tell each other: numbers, shapes and names as bytes.
//
//   Packer packer;
//   packer.number(3);
//   for (const std::string& text : gather_texts(group, packer.text(), "checkpoint slices"))   // of each rank
//     use(Unpacker(text).number());
//
// Errors: Error where a text is cut off; those of the group. Thread rule: plain data; gather_texts() is collective.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/tensor/box.h"

namespace athanor::checkpoint {

class Packer {
 public:
  void number(int64_t value);
  void shape(const Shape& shape);
  void box(const Box& box);
  void name(const std::string& name);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// `text` outlives it.
class Unpacker {
 public:
  explicit Unpacker(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  int64_t number();
  Shape shape();
  Box box();
  std::string name();

 private:
  std::string_view take(size_t count);
  std::string_view text_;
};

// Every rank's text, in rank order. Collective.
std::vector<std::string> gather_texts(Group& group, const std::string& text, const std::string& call);

}  // namespace athanor::checkpoint
