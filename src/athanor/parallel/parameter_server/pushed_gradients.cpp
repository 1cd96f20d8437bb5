#include "athanor/parallel/parameter_server/pushed_gradients.h"

#include "athanor/base/check.h"
#include "athanor/kernels/table.h"

namespace athanor::parallel::parameter_server {

PushedGradients::PushedGradients(const Buckets& buckets, Group& workers, Group& world, Arena& arena,
                                 const ServerSettings& settings, WaitClock& clock)
    : ReplicatedGradients(buckets, workers, arena, settings.reduce, clock, settings.parts),
      world_(world),
      settings_(settings),
      complete_(buckets.list.size()) {
  check(settings.consistency == Consistency::sync || settings.reduce == Reduce::fast,
        "parameter server: got reduce tree, expected fast: only synchronous updates sum what workers push");
  if (settings.compression.kind == Compression::none) return;
  check(settings.reduce == Reduce::fast,
        "parameter server: got compressed sums along the tree, expected fast");
  coded_ = std::make_unique<CodedPush>(buckets, workers, arena, settings);
}

void PushedGradients::code(bool coded, double loss_scale) {
  codes_ = coded;
  encoded_ = false;
  if (coded_) coded_->set_unit(loss_scale);
}

void PushedGradients::skip_step() {
  if (coded_) coded_->forget();
}

std::vector<CompressionState> PushedGradients::compression_states() const {
  return coded_ ? coded_->states() : std::vector<CompressionState>{};
}

void PushedGradients::start_sum(size_t bucket, const std::vector<TreeNode>& nodes) {
  complete_[bucket] = nodes;
  if (settings_.consistency == Consistency::sync) send_complete();
}

void PushedGradients::send_complete() {
  for (; next_ < complete_.size() && !complete_[next_].empty(); ++next_) {
    if (codes_) {
      if (!encoded_) coded_->encode(next_, complete_[next_].front().data, /*decoded=*/false);
      coded_->send(next_, world_, [this](Work work) { keep(std::move(work)); });
      complete_[next_].clear();
      continue;
    }
    const int64_t count = buckets_.list[next_].layout.count;
    for (const TreeNode& node : complete_[next_])
      for (int server = 0; server < settings_.roles.servers; ++server)
        keep(world_.send(node.data + server * count, count, Dtype::f32,
                         settings_.roles.rank_of_server(server), "gradients " + std::to_string(next_)));
    complete_[next_].clear();
  }
  if (next_ == complete_.size()) next_ = 0;
}

void PushedGradients::push() {
  send_complete();
}

std::vector<double> PushedGradients::sum_squares(const std::vector<std::unique_ptr<Param>>& params) {
  for (size_t bucket = 0; codes_ && bucket < complete_.size(); ++bucket)
    coded_->encode(bucket, complete_[bucket].front().data, /*decoded=*/true);
  encoded_ = codes_;
  std::vector<Tensor> sums;
  for (const auto& param : params) {
    Tensor sum = param->uses().front()->grad();
    for (size_t i = 1; i < param->uses().size(); ++i) {
      Tensor other = param->uses()[i]->grad();
      kernels_of(sum).elementwise.accumulate(sum.queue(), sum, other);
      fill_zero(other);  // the server adds all uses, so it must not count twice
    }
    sums.push_back(sum);
  }
  std::vector<double> squares(sums.size());
  if (!sums.empty()) kernels_of(sums[0]).elementwise.sum_squares(sums[0].queue(), sums, squares);
  return squares;
}

}  // namespace athanor::parallel::parameter_server
