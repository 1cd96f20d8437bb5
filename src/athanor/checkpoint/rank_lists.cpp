#include "athanor/checkpoint/rank_lists.h"

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::checkpoint {

void Packer::number(int64_t value) {
  text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void Packer::shape(const Shape& shape) {
  number(shape.dims());
  for (int d = 0; d < shape.dims(); ++d) number(shape[d]);
}

void Packer::box(const Box& box) {
  shape(box.offset);
  shape(box.extent);
}

void Packer::name(const std::string& name) {
  number(static_cast<int64_t>(name.size()));
  text_ += name;
}

int64_t Unpacker::number() {
  int64_t value = 0;
  take(sizeof(value)).copy(reinterpret_cast<char*>(&value), sizeof(value));
  return value;
}

Shape Unpacker::shape() {
  Shape shape;
  for (int64_t left = number(); left > 0; --left) shape.push_back(number());
  return shape;
}

Box Unpacker::box() {
  Box box;
  box.offset = shape();
  box.extent = shape();
  return box;
}

std::string Unpacker::name() {
  return std::string(take(static_cast<size_t>(number())));
}

std::string_view Unpacker::take(size_t count) {
  check(count <= text_.size(), "checkpoint: a rank's list is cut off");
  const std::string_view taken = text_.substr(0, count);
  text_.remove_prefix(count);
  return taken;
}

std::vector<std::string> gather_texts(Group& group, const std::string& text, const std::string& call) {
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int64_t> sizes(ranks);
  const auto size = static_cast<int64_t>(text.size());
  group.all_gather(&size, sizes.data(), 1, Dtype::i64, call).wait();
  const auto most = static_cast<size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::string padded = text, all(most * ranks, '\0');
  padded.resize(most);
  group.all_gather(padded.data(), all.data(), static_cast<int64_t>(most), Dtype::u8, call).wait();
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < ranks; ++rank)
    texts.push_back(all.substr(rank * most, static_cast<size_t>(sizes[rank])));
  return texts;
}

}  // namespace athanor::checkpoint
