#include "athanor/train/islands.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/train/param_slices.h"

namespace athanor {

int island_ranks(const Config& config, int dp, int ranks_of_host) {
  const ParallelConfig& p = config.parallel;
  const auto sharing = static_cast<int>(p.tp * p.cp);
  const int ranks = p.sync_group != 0 ? static_cast<int>(p.sync_group)
                                      : std::clamp(ranks_of_host / std::max(1, sharing), 1, dp);
  if (dp % ranks != 0)
    throw ConfigError(
        fmt::format("parallel.sync_group: got {} of parallel.dp = {} ranks, expected a divisor", ranks, dp),
        "an island is as large as every other");
  return ranks;
}

IslandGroups make_islands(World& world, const MeshShape& shape, int ranks, const std::string& name) {
  const std::vector<int> peers = shape.peers(world.rank(), {Axis::dp, Axis::cp});
  const int own = shape.coordinate(world.rank(), Axis::dp) * shape.cp +
                  shape.coordinate(world.rank(), Axis::cp),
            together = ranks * shape.cp;
  std::vector<int> inner, across;
  for (int place = 0; place < shape.dp * shape.cp; ++place) {
    const int peer = peers[static_cast<size_t>(place)];
    if (place / together == own / together) inner.push_back(peer);
    if (place % together == own % together) across.push_back(peer);
  }
  return {world.make_group(std::move(inner), name), world.make_group(std::move(across), name + "s")};
}

std::string island_prefix(const OuterSync* outer) {
  return outer == nullptr ? "" : fmt::format("island.{}.", outer->island());
}

std::string island_prefix(const Checkpoint& checkpoint, const OuterSync* outer, const Param& any) {
  int written = 0;
  while (checkpoint.has(fmt::format("island.{}.model.{}", written, any.name()))) ++written;
  if (written == 0) return "";
  if (outer == nullptr)
    throw ConfigError(
        fmt::format("parallel.sync_every: got 0 for '{}', expected k > 0: it holds the optimizer state of "
                    "{} islands",
                    checkpoint.path(), written),
        "train.init_from takes its weights alone");
  return fmt::format("island.{}.", outer->island() % written);
}

void add_outer(std::vector<NamedTensor>& tensors, const OuterSync& outer,
               const std::vector<std::unique_ptr<Param>>& params) {
  for (const OuterSync::Piece& piece : outer.pieces()) {
    add_slices(tensors, "model", *piece.param, piece.range, piece.weights);
    add_slices(tensors, "outer.momentum", *piece.param, piece.range, piece.momentum);
  }
  for (const auto& param : params)
    if (param->is_state()) add_slices(tensors, "model", *param, param->master());
}

void load_outer(const Checkpoint& checkpoint, OuterSync& outer) {
  const auto read = [&](const std::string& kind, const OuterSync::Piece& piece, const Tensor& to) {
    if (!checkpoint.has(kind + "." + piece.param->name())) return;
    const std::vector<float> values = read_slices(checkpoint, kind, *piece.param, piece.range);
    std::copy(values.begin(), values.end(), to.data<float>());
  };
  for (const OuterSync::Piece& piece : outer.pieces()) {
    read("model", piece, piece.weights);
    read("outer.momentum", piece, piece.momentum);
  }
  outer.set_begun();
}

}  // namespace athanor
