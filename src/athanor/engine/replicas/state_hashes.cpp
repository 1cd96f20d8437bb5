#include "athanor/engine/replicas/state_hashes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/rank_lists.h"

namespace athanor::engine::replicas {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 18;  // of one task: far more than it costs to hand out

uint64_t key_of(const std::string& name, const Shape& whole, const std::vector<Box>& boxes, int64_t padding) {
  Packer packer;
  packer.name(name);
  packer.shape(whole);
  for (const Box& box : boxes) packer.box(box);
  packer.number(padding);
  return hash64(packer.text());
}

bool is_readable(const Tensor& values) {
  return values.defined() && values.queue().device() == Device::cpu;
}

uint64_t fold(const std::vector<uint64_t>& hashes) {
  return hash64(hashes.data(), hashes.size() * sizeof(uint64_t));
}

}  // namespace

std::string StateDisagreement::text() const {
  const std::string where = fmt::format("'{}' has other bits on {} ranks that should hold the same, {}",
                                        tensor, holders.size(), fmt::join(holders, ", "));
  if (minority.empty()) return where + "; no majority tells which of them is wrong";
  return fmt::format("{}; rank {} differs from the others", where, fmt::join(minority, ", "));
}

std::vector<int> minority_of(const std::vector<int>& holders, const std::vector<uint64_t>& hashes) {
  std::map<uint64_t, size_t> counts;
  for (const uint64_t hash : hashes) ++counts[hash];
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<int> minority;
  if (2 * most->second <= holders.size()) return minority;
  for (size_t i = 0; i < holders.size(); ++i)
    if (hashes[i] != most->first) minority.push_back(holders[i]);
  return minority;
}

std::vector<StateHashes::Part> StateHashes::parts() const {
  std::vector<Part> parts;
  const std::vector<StateTensor> state = training_.state();
  const bool in_slots = training_.slots() != nullptr && training_.slots()->has_checksums();
  for (size_t i = 0; i < state.size(); ++i) {
    const StateTensor& held = state[i];
    if (!in_slots && !is_readable(held.kept.tensor)) continue;
    parts.push_back({.name = held.name,
                     .key = key_of(held.name, held.whole, held.boxes, in_slots ? held.padding : 0),
                     .values = in_slots ? nullptr : held.kept.tensor.raw(),
                     .size_bytes = static_cast<size_t>(held.numel()) * sizeof(float),
                     .slot = in_slots ? static_cast<int>(i) : -1});
  }
  // Where these are no copies of the masters that are compared already.
  if (training_.layout().zero_stage == 3) return parts;
  for (const auto& param : training_.model->params()) {
    if (param->whole() && !param->copy_of_master().defined()) continue;
    const Tensor& values = param->value();
    if (!is_readable(values)) continue;
    const std::string name = training_.prefix() + "weight." + param->name();
    parts.push_back({.name = name,
                     .key = key_of(name, param->shape(), {param->box()}, 0),
                     .values = values.raw(),
                     .size_bytes = values.size_bytes()});
  }
  return parts;
}

StateHashes::StateHashes(const Training& training, Group& group) : training_(training), group_(group) {
  std::map<uint64_t, size_t> mine;  // by key
  Packer packer;
  const std::vector<Part> all = parts();
  for (size_t i = 0; i < all.size(); ++i) mine[all[i].key] = i;
  for (const auto& [key, part] : mine) packer.number(static_cast<int64_t>(key));
  std::map<uint64_t, std::vector<int>> holders;
  const std::vector<std::string> texts = gather_texts(group_, packer.text(), "parts of the state");
  for (int rank = 0; rank < group_.size(); ++rank)
    for (Unpacker unpacker(texts[static_cast<size_t>(rank)]); !unpacker.at_end();)
      holders[static_cast<uint64_t>(unpacker.number())].push_back(rank);
  std::map<std::vector<int>, std::vector<size_t>> sets;
  for (const auto& [key, ranks] : holders) {
    if (ranks.size() < 2) continue;
    std::vector<size_t>& of_set = sets[ranks];
    if (const auto own = mine.find(key); own != mine.end()) of_set.push_back(own->second);
  }
  for (auto& [ranks, own] : sets) replicas_.push_back({ranks, std::move(own)});
}

size_t StateHashes::num_compared() const {
  size_t count = 0;
  for (const Replicas& replicas : replicas_) count += replicas.parts.size();
  return count;
}

std::vector<uint64_t> StateHashes::hashes_of(const std::vector<Part>& parts) const {
  struct Piece {
    size_t part, first, size_bytes;
    uint64_t hash = 0;
  };
  std::vector<Piece> pieces;
  std::vector<uint64_t> hashes(parts.size());
  std::set<size_t> needed;
  for (const Replicas& replicas : replicas_) needed.insert(replicas.parts.begin(), replicas.parts.end());
  for (const size_t i : needed) {
    if (parts[i].slot >= 0) {
      hashes[i] = training_.slots()->checksum(static_cast<size_t>(parts[i].slot));
      continue;
    }
    for (size_t first = 0; first < parts[i].size_bytes; first += kPieceBytes)
      pieces.push_back({i, first, std::min(kPieceBytes, parts[i].size_bytes - first)});
  }
  training_.arena.queue().parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t at) {
    Piece& piece = pieces[static_cast<size_t>(at)];
    piece.hash =
        hash64(static_cast<const std::byte*>(parts[piece.part].values) + piece.first, piece.size_bytes);
  });
  for (const Piece& piece : pieces) hashes[piece.part] = fold({hashes[piece.part], piece.hash});
  return hashes;
}

std::optional<StateDisagreement> StateHashes::compare() {
  if (replicas_.empty()) return std::nullopt;
  const std::vector<Part> all = parts();
  const std::vector<uint64_t> hashes = hashes_of(all);
  std::vector<uint64_t> own;
  for (const Replicas& replicas : replicas_) {
    std::vector<uint64_t> of_parts;
    for (const size_t part : replicas.parts) of_parts.push_back(hashes[part]);
    own.push_back(fold(of_parts));
  }
  std::vector<uint64_t> of_ranks(own.size() * static_cast<size_t>(group_.size()));
  group_.all_gather(own.data(), of_ranks.data(), std::ssize(own), Dtype::i64, "state hashes").wait();
  // The fewest ranks that differ say most: what they have computed together has spread to larger sets.
  const Replicas* first = nullptr;
  std::set<int> minority;
  for (size_t set = 0; set < replicas_.size(); ++set) {
    const Replicas& replicas = replicas_[set];
    std::vector<uint64_t> of_set;
    for (const int rank : replicas.ranks)
      of_set.push_back(of_ranks[static_cast<size_t>(rank) * own.size() + set]);
    if (std::equal(of_set.begin() + 1, of_set.end(), of_set.begin())) continue;
    if (first != nullptr && replicas.ranks.size() > first->ranks.size()) continue;
    if (first == nullptr || replicas.ranks.size() < first->ranks.size()) {
      first = &replicas;
      minority.clear();
    }
    const std::vector<int> differ = minority_of(replicas.ranks, of_set);
    minority.insert(differ.begin(), differ.end());
  }
  if (first == nullptr) return std::nullopt;
  return StateDisagreement{.tensor = first_tensor(*first, all, hashes),
                           .holders = first->ranks,
                           .minority = {minority.begin(), minority.end()}};
}

// The first tensor of the set that differs, in the order of the rank that holds it first.
std::string StateHashes::first_tensor(const Replicas& replicas, const std::vector<Part>& parts,
                                      const std::vector<uint64_t>& hashes) {
  std::vector<size_t> in_order = replicas.parts;
  std::sort(in_order.begin(), in_order.end());
  Packer packer;
  for (const size_t part : in_order) {
    packer.number(static_cast<int64_t>(parts[part].key));
    packer.number(static_cast<int64_t>(hashes[part]));
    packer.name(parts[part].name);
  }
  const std::vector<std::string> texts = gather_texts(group_, packer.text(), "hashes of tensors");
  struct Told {
    std::string name;
    std::vector<uint64_t> hashes;  // of each holder
  };
  std::vector<Told> told;
  std::unordered_map<int64_t, size_t> place;  // by key
  for (const int rank : replicas.ranks)
    for (Unpacker unpacker(texts[static_cast<size_t>(rank)]); !unpacker.at_end();) {
      const auto at = place.emplace(unpacker.number(), told.size()).first->second;
      if (at == told.size()) told.emplace_back();
      told[at].hashes.push_back(static_cast<uint64_t>(unpacker.number()));
      told[at].name = unpacker.name();
    }
  for (const Told& of_part : told)
    if (std::any_of(of_part.hashes.begin(), of_part.hashes.end(),
                    [&](uint64_t hash) { return hash != of_part.hashes.front(); }))
      return of_part.name;
  fail("state hashes: ranks {} differ, and no tensor of theirs does", fmt::join(replicas.ranks, ", "));
}

}  // namespace athanor::engine::replicas
