#include "athanor/comm/mesh.h"

#include <algorithm>
#include <numeric>

#include "athanor/base/check.h"

namespace athanor::comm {

namespace {

// The axes of size above 1, each once, in the order of Axis.
std::vector<Axis> axes_that_count(const MeshShape& shape, std::initializer_list<Axis> axes) {
  std::vector<Axis> some;
  for (const Axis axis : axes)
    if (shape.size(axis) > 1) some.push_back(axis);
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  return some;
}

std::string text_of(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis axis : axes) text += (text.empty() ? "" : " x ") + std::string(name_of(axis));
  return text;
}

bool is_dense(Axis axis) {
  return axis == Axis::dp || axis == Axis::cp || axis == Axis::tp;
}
bool is_expert(Axis axis) {
  return axis == Axis::ep || axis == Axis::edp;
}

// How many consecutive tp ranks an ep group has, on each of its ep / this (dp, cp) ranks.
int ep_within_tp(const MeshShape& shape) {
  return std::gcd(shape.ep, shape.tp);
}

}  // namespace

const char* name_of(Axis axis) {
  switch (axis) {
    case Axis::pp:
      return "pp";
    case Axis::dp:
      return "dp";
    case Axis::cp:
      return "cp";
    case Axis::tp:
      return "tp";
    case Axis::ep:
      return "ep";
    case Axis::edp:
      return "edp";
  }
  return "unknown axis";
}

int MeshShape::size(Axis axis) const {
  switch (axis) {
    case Axis::pp:
      return pp;
    case Axis::dp:
      return dp;
    case Axis::cp:
      return cp;
    case Axis::tp:
      return tp;
    case Axis::ep:
      return ep;
    case Axis::edp:
      return dp * cp * tp / ep;
  }
  fail("mesh: no such axis ({})", static_cast<int>(axis));
}

int MeshShape::coordinate(int rank, Axis axis) const {
  const int in_stage = rank % (dp * cp * tp), in_tp = in_stage % tp, data = in_stage / tp;
  const int within = ep_within_tp(*this), across = ep / within;
  switch (axis) {
    case Axis::pp:
      return rank / (dp * cp * tp);
    case Axis::dp:
      return in_stage / (cp * tp);
    case Axis::cp:
      return in_stage / tp % cp;
    case Axis::tp:
      return in_tp;
    case Axis::ep:
      return data % across * within + in_tp % within;
    case Axis::edp:
      return data / across * (tp / within) + in_tp / within;
  }
  fail("mesh: no such axis ({})", static_cast<int>(axis));
}

std::vector<int> MeshShape::peers(int rank, std::initializer_list<Axis> axes) const {
  const auto has = [&](Axis axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  const bool dense = std::any_of(axes.begin(), axes.end(), is_dense);
  const bool expert = std::any_of(axes.begin(), axes.end(), is_expert);
  check(!dense || !expert,
        "mesh: a group over ep or edp together with dp, cp or tp, which are the same ranks");
  const auto kept = expert ? std::vector<Axis>{Axis::pp, Axis::ep, Axis::edp}
                           : std::vector<Axis>{Axis::pp, Axis::dp, Axis::cp, Axis::tp};
  std::vector<int> ranks;
  for (int other = 0; other < num_ranks(); ++other)
    if (std::all_of(kept.begin(), kept.end(), [&](Axis axis) {
          return has(axis) || coordinate(other, axis) == coordinate(rank, axis);
        }))
      ranks.push_back(other);
  return ranks;
}

int MeshShape::expert_parts() const {
  return cp * ep_within_tp(*this) % ep == 0 ? cp * tp / ep : 0;
}

std::string MeshShape::text() const {
  return fmt::format("pp={} dp={} cp={} tp={} ep={}", pp, dp, cp, tp, ep);
}

std::string MeshShape::problem(int num_ranks) const {
  int64_t product = 1;
  for (const auto& [axis, length] :
       {std::pair{Axis::pp, pp}, {Axis::dp, dp}, {Axis::cp, cp}, {Axis::tp, tp}}) {
    if (length < 1) return fmt::format("{} is {}, expected at least 1", name_of(axis), length);
    if (length > num_ranks)
      return fmt::format("{} is {}, expected at most {} ranks", name_of(axis), length, num_ranks);
    product = std::min<int64_t>(product * length, int64_t{1} << 31);
  }
  if (product != num_ranks)
    return fmt::format("pp * dp * cp * tp is {}, expected {} ranks", product, num_ranks);
  if (ep < 1) return fmt::format("ep is {}, expected at least 1", ep);
  if (dp * cp * tp % ep != 0)
    return fmt::format("ep is {}, expected a divisor of dp * cp * tp = {}", ep, dp * cp * tp);
  return "";
}

Mesh::Mesh(const MeshShape& shape, World& world, int beyond) : shape_(shape), world_(world) {
  const std::string problem = shape.problem(world.size() - beyond);
  check(problem.empty(), "mesh {}: {}", shape.text(), problem);
  world.all().barrier("mesh " + shape.text());
}

Group& Mesh::group(std::initializer_list<Axis> axes) {
  const std::vector<int> members = shape_.peers(world_.rank(), axes);
  const std::vector<Axis> some = axes_that_count(shape_, axes);
  auto& group = groups_[text_of(some)];
  if (!group) {
    const std::string name = some.empty() ? "one rank" : text_of(some);
    group = world_.make_group(members, fmt::format("{} of {}", name, members_text(members)));
  }
  return *group;
}

Traffic Mesh::traffic() const {
  Traffic sum;
  for (const auto& [axes, group] : groups_) sum += group->traffic();
  return sum;
}

}  // namespace athanor::comm
