// Compares the state of ranks that hold the same values: replicas over any axis. A bit that flips in the memory of one rank,
// or in what it was sent, makes its weights or moments unlike those of the others, for good.
//
//   StateHashes hashes(training, group);                           // between steps; collective
//   if (const auto found = hashes.compare()) warn(found->text());   // the same on all ranks; collective
//
// Compared are parts of logical tensors (master weights, optimizer state) that several ranks hold, and the weights that they
// compute with. With slots (snapshot_slots.h) their block checksums are compared, which the update has taken. State that
// only one rank holds (ZeRO shards), or that is not in memory as it is (offload, 8 bits), is compared with nothing.
// Cost: without slots one read of the state; 8 bytes a rank for each set of ranks that hold the same. Errors: those of
// the group. Thread rule: one thread; training and group outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/engine/setup.h"

namespace athanor::engine::replicas {

struct StateDisagreement {
  std::string tensor;        // the first one: "adam.m.blocks.0.attn.q.weight"
  std::vector<int> holders;  // the ranks that should have the same bits
  // Who differs from most holders of the same; empty: there is no majority. Ranks that compute one replica together (tp, pp)
  // pass a fault on to each other, and then all of them are named.
  std::vector<int> minority;
  std::string text() const;
};

// Of holders with these hashes. Most is more than half.
std::vector<int> minority_of(const std::vector<int>& holders, const std::vector<uint64_t>& hashes);

class StateHashes {
 public:
  StateHashes(const Training& training, Group& group);
  std::optional<StateDisagreement> compare();
  size_t num_compared() const;  // parts of this rank that others hold, too

 private:
  // Ranks that hold the same parts.
  struct Replicas {
    std::vector<int> ranks;
    std::vector<size_t> parts;  // of this rank, in the order of their keys; none: it is another one's
  };
  struct Part {
    std::string name;
    uint64_t key;  // equal on all ranks that hold it
    const void* values;
    size_t size_bytes;
    int slot = -1;  // number of the tensor there; -1: it is hashed
  };
  std::vector<Part> parts() const;
  std::vector<uint64_t> hashes_of(const std::vector<Part>& parts) const;
  std::string first_tensor(const Replicas& replicas, const std::vector<Part>& parts,
                           const std::vector<uint64_t>& hashes);

  const Training& training_;
  Group& group_;
  std::vector<Replicas> replicas_;
};

}  // namespace athanor::engine::replicas
