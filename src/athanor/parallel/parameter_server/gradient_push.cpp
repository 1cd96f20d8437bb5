#include "athanor/parallel/parameter_server/gradient_push.h"

#include "athanor/base/check.h"
#include "athanor/kernels/table.h"

namespace athanor::parallel::parameter_server {

GradientPush::GradientPush(const Buckets& buckets, Group& workers, Group& world, Arena& arena,
                           const ServerSettings& settings, WaitClock& clock)
    : buckets_(buckets), world_(world), settings_(settings), clock_(clock), complete_(buckets.list.size()) {
  check(settings.consistency == Consistency::sync || settings.reduce == Reduce::fast,
        "parameter server: got reduce tree, expected fast: only synchronous updates sum what workers push");
  if (settings.compression.kind == Compression::none) return;
  check(settings.reduce == Reduce::fast,
        "parameter server: got compressed sums along the tree, expected fast");
  coded_ = std::make_unique<CodedPush>(buckets, workers, arena, settings);
}

void GradientPush::code(bool coded, double loss_scale) {
  codes_ = coded;
  encoded_ = false;
  if (coded_) coded_->set_unit(loss_scale);
}

void GradientPush::skip_step() {
  if (coded_) coded_->forget();
}

std::vector<ExchangeState> GradientPush::exchange_states() const {
  return coded_ ? coded_->states() : std::vector<ExchangeState>{};
}

void GradientPush::start(size_t bucket, const std::vector<PartialSum>& parts, int64_t /*num_leaves*/) {
  if (parts.front().values.queue().device() == Device::null) return;  // a plan has no servers
  complete_[bucket] = parts;
  if (settings_.consistency == Consistency::sync) push();
}

void GradientPush::push() {
  for (; next_ < complete_.size() && !complete_[next_].empty(); ++next_) {
    if (codes_) {
      if (!encoded_) coded_->encode(next_, complete_[next_].front().values.data<float>(), /*decoded=*/false);
      coded_->send(next_, world_, [this](Work work) { works_.push_back(std::move(work)); });
      complete_[next_].clear();
      continue;
    }
    const int64_t count = buckets_.list[next_].layout.count;
    for (const PartialSum& part : complete_[next_])
      for (int server = 0; server < settings_.roles.servers; ++server)
        works_.push_back(world_.send(part.values.data<float>() + server * count, count, Dtype::f32,
                                     settings_.roles.rank_of_server(server),
                                     "gradients " + std::to_string(next_)));
    complete_[next_].clear();
  }
  if (next_ == complete_.size()) next_ = 0;
}

void GradientPush::finish() {
  for (Work& work : works_) clock_.wait(work, "wait for gradients");
  works_.clear();
}

std::vector<double> GradientPush::sum_squares(const std::vector<std::unique_ptr<Param>>& params) {
  for (size_t bucket = 0; codes_ && bucket < complete_.size(); ++bucket)
    coded_->encode(bucket, complete_[bucket].front().values.data<float>(), /*decoded=*/true);
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
