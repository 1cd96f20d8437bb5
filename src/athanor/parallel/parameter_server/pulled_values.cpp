#include "athanor/parallel/parameter_server/pulled_values.h"

namespace athanor::parallel::parameter_server {

PulledValues::PulledValues(const Buckets& buckets, Group& world, Arena& arena, const ServerSettings& settings,
                           WaitClock& clock)
    : buckets_(buckets), world_(world), arena_(arena), roles_(settings.roles), clock_(clock) {
  for (size_t b = buckets_.list.size(); b-- > 0;) {
    const std::vector<Param*> params = buckets_.params(b);
    if (params.empty()) continue;  // a bucket of second uses of shared parameters
    const ShardLayout& layout = buckets_.list[b].layout;
    pulls_.push_back({.bucket = b,
                      .whole = empty(arena, {layout.total()}, settings.dtype, Category::parameters),
                      .works = {}});
    for (size_t slot = 0; slot < params.size(); ++slot) {
      Param& param = *params[slot];
      const Tensor value = pulls_.back().whole.flat(layout.offsets[slot], param.numel()).view(param.shape());
      param.keep({0, param.numel()}, value, this);
      param.set_value(value);
      pull_of_[&param] = pulls_.size() - 1;
    }
  }
}

void PulledValues::wait(Pull& pull) {
  for (Work& work : pull.works) clock_.wait(work, "wait for parameters");
  pull.works.clear();
}

void PulledValues::need(const ParamStorage& param) {
  wait(pulls_[pull_of_.at(&param)]);
}

void PulledValues::settle() {
  for (Pull& pull : pulls_) wait(pull);
}

void PulledValues::pull() {
  settle();
  for (Pull& pull : pulls_) {
    const ShardLayout& layout = buckets_.list[pull.bucket].layout;
    for (int server = 0; server < roles_.servers; ++server) {
      const Tensor row = pull.whole.flat(server * layout.count, layout.count);
      pull.works.push_back(world_.recv(row.raw(), layout.count, row.dtype(), roles_.rank_of_server(server),
                                       "parameters " + std::to_string(pull.bucket)));
    }
  }
}

}  // namespace athanor::parallel::parameter_server
