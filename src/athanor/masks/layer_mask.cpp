#include "athanor/masks/layer_mask.h"

#include <algorithm>

namespace athanor::masks {

std::shared_ptr<const AttentionMask> LayerMask::of(const MaskRequest& request) const {
  const auto known =
      std::find_if(made_.begin(), made_.end(), [&](const Made& made) { return made.request == request; });
  if (known != made_.end()) return known->mask;
  if (made_.size() == kLayerMasks) made_.erase(made_.begin());
  made_.push_back({request, std::make_shared<const AttentionMask>(make_(request))});
  return made_.back().mask;
}

std::shared_ptr<const AttentionMask> HeadMasks::of(MaskRequest request) const {
  if (layer == nullptr) return nullptr;
  request.first_head += first_head;
  return layer->of(request);
}

}  // namespace athanor::masks
