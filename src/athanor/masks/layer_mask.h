// The masks of one layer of a model, made when a pass first asks for them and kept.
//
//   const LayerMask layer([&](const MaskRequest& of) { return mask_of(pattern, of, /*layer=*/3); });
//   const HeadMasks heads{&layer, /*first=*/4};                  // a rank that has the heads from the fifth on
//   auto mask = heads.of({.positions = {{{0, 512}}, {{0, 512}}}, .length = 512, .heads = 4});    // shared, const
//
// The newest kLayerMasks are kept: a pass of training asks for the same ones again, one that generates for others.
// Thread rule: one thread, that of the model.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/masks/attention_mask.h"

namespace athanor::masks {

struct MaskRequest {
  MaskPositions positions;
  int64_t length = 0;      // of the whole sequence
  int64_t first_head = 0;  // of the layer's
  int64_t heads = 0;
  bool operator==(const MaskRequest&) const = default;
};

class LayerMask {
 public:
  using Make = std::function<AttentionMask(const MaskRequest&)>;
  explicit LayerMask(Make make) : make_(std::move(make)) {}

  std::shared_ptr<const AttentionMask> of(const MaskRequest& request) const;

 private:
  struct Made {
    MaskRequest request;
    std::shared_ptr<const AttentionMask> mask;
  };
  Make make_;
  mutable std::vector<Made> made_;  // the newest last
};

constexpr size_t kLayerMasks = 32;

// What an attention operation is told: the layer's masks, which of its heads it has, and whether tokens see later ones.
struct HeadMasks {
  const LayerMask* layer = nullptr;  // null: no mask
  int64_t first_head = 0;
  bool causal = true;  // false: in an encoder
  std::shared_ptr<const AttentionMask> of(MaskRequest request) const;
};

}  // namespace athanor::masks
