#include "athanor/comm/mesh.h"

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::comm {

MeshShape::MeshShape(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  int64_t ranks = 1;
  for (auto axis = axes_.begin(); axis != axes_.end(); ++axis) {
    check(axis->size >= 1, "mesh: {} is {}, expected at least 1", axis->name, axis->size);
    check(std::none_of(axes_.begin(), axis, [&](const MeshAxis& other) { return other.name == axis->name; }),
          "mesh: two axes are named {}", axis->name);
    ranks *= axis->size;
    check(ranks <= INT32_MAX, "mesh {}: too many ranks", text());
  }
}

size_t MeshShape::index_of(std::string_view axis) const {
  const auto found =
      std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& one) { return one.name == axis; });
  check(found != axes_.end(), "mesh {}: has no axis {}", text(), axis);
  return static_cast<size_t>(found - axes_.begin());
}

int MeshShape::num_ranks() const {
  int ranks = 1;
  for (const MeshAxis& axis : axes_) ranks *= axis.size;
  return ranks;
}

int MeshShape::size(std::string_view axis) const {
  return axes_[index_of(axis)].size;
}

int MeshShape::coordinate(int rank, std::string_view axis) const {
  for (size_t i = axes_.size() - 1; i > index_of(axis); --i) rank /= axes_[i].size;
  return rank % size(axis);
}

std::vector<int> MeshShape::peers(int rank, const AxisNames& axes) const {
  std::vector<bool> may_differ(axes_.size());
  for (const std::string_view axis : axes) may_differ[index_of(axis)] = true;
  const auto is_peer = [&](int other) {
    for (size_t i = axes_.size(), own = static_cast<size_t>(rank), its = static_cast<size_t>(other);
         i-- > 0;) {
      const auto size = static_cast<size_t>(axes_[i].size);
      if (!may_differ[i] && its % size != own % size) return false;
      own /= size;
      its /= size;
    }
    return true;
  };
  std::vector<int> ranks;
  for (int other = 0; other < num_ranks(); ++other)
    if (is_peer(other)) ranks.push_back(other);
  return ranks;
}

std::string MeshShape::text() const {
  std::string text;
  for (const MeshAxis& axis : axes_)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis.name, axis.size);
  return text;
}

std::string MeshShape::text_of(const AxisNames& axes) const {
  std::string text;
  for (const MeshAxis& axis : axes_)
    if (axis.size > 1 && std::find(axes.begin(), axes.end(), axis.name) != axes.end())
      text += fmt::format("{}{}", text.empty() ? "" : " x ", axis.name);
  return text;
}

Mesh::Mesh(MeshShape shape, World& world) : shape_(std::move(shape)), world_(world) {
  check(shape_.num_ranks() <= world.size(), "mesh {}: {} ranks, expected at most the {} of the world",
        shape_.text(), shape_.num_ranks(), world.size());
  world.all().barrier("mesh " + shape_.text());
}

Group& Mesh::group(const AxisNames& axes) {
  const std::string text = shape_.text_of(axes);
  auto& group = groups_[text];
  if (!group) {
    const std::vector<int> members = shape_.peers(world_.rank(), axes);
    group = world_.make_group(
        members, fmt::format("{} of {}", text.empty() ? "one rank" : text, members_text(members)));
  }
  return *group;
}

}  // namespace athanor::comm
