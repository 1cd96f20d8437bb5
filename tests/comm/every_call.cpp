#include "comm/every_call.h"

#include <fmt/core.h>

#include <numeric>
#include <vector>

#include "comm/reference.h"

namespace athanor::tests {

namespace {

// The sum of element i over the ranks in the order of two levels, or of one.
template <typename T>
T levelled_sum(int ranks, int inner, int64_t i) {
  if (inner == 1) return serial_sum<T>(ranks, i);
  const auto host = [&](int first) {
    if constexpr (std::is_same_v<T, Bf16>) {
      float sum = to_float(sample<T>(first, i));
      for (int r = first + 1; r < first + inner; ++r) sum += to_float(sample<T>(r, i));
      return from_float<Bf16>(sum);  // what goes between hosts is rounded
    } else {
      T sum = sample<T>(first, i);
      for (int r = first + 1; r < first + inner; ++r) sum += sample<T>(r, i);
      return sum;
    }
  };
  if constexpr (std::is_same_v<T, Bf16>) {
    float sum = to_float(host(0));
    for (int first = inner; first < ranks; first += inner) sum += to_float(host(first));
    return from_float<Bf16>(sum);
  } else {
    T sum = host(0);
    for (int first = inner; first < ranks; first += inner) sum += host(first);
    return sum;
  }
}

class Trial {
 public:
  Trial(Group& group, int inner) : group_(group), inner_(inner), me_(group.rank()), n_(group.size()) {}

  template <typename T>
  void calls(int64_t count) {
    const Dtype dtype = DtypeOf<T>::value;
    const auto sums = [&](int64_t first, int64_t length) {
      std::vector<T> values;
      for (int64_t i = 0; i < length; ++i) values.push_back(levelled_sum<T>(n_, inner_, first + i));
      return values;
    };
    const std::string what = fmt::format("{}[{}]", name_of(dtype), count);
    std::vector<T> data = samples<T>(me_, 0, count);
    group_.all_reduce(data.data(), count, dtype, "all_reduce").wait();
    compare(data, sums(0, count), "all_reduce " + what);

    const auto rows = samples<T>(me_, 0, count * n_);
    std::vector<T> row(static_cast<size_t>(count));
    group_.reduce_scatter(rows.data(), row.data(), count, dtype, "reduce_scatter").wait();
    compare(row, sums(me_ * count, count), "reduce_scatter " + what);

    std::vector<T> all(static_cast<size_t>(count * n_));
    data = samples<T>(me_, 0, count);
    group_.all_gather(data.data(), all.data(), count, dtype, "all_gather").wait();
    compare(all, gathered<T>(count), "all_gather " + what);

    group_.all_to_all(rows.data(), all.data(), count, dtype, "all_to_all").wait();
    compare(all, rows_for<T>(me_, n_, count), "all_to_all " + what);

    for (int root = 0; root < n_; ++root) {
      const std::string rooted = fmt::format(" {} root {}", what, root);
      data = me_ == root ? samples<T>(root, 0, count) : std::vector<T>(static_cast<size_t>(count));
      group_.broadcast(data.data(), count, dtype, root, "broadcast").wait();
      compare(data, samples<T>(root, 0, count), "broadcast" + rooted);

      const auto mine = samples<T>(me_, 0, count);
      group_.reduce(mine.data(), me_ == root ? row.data() : nullptr, count, dtype, root, "reduce").wait();
      if (me_ == root) compare(row, sums(0, count), "reduce" + rooted);

      group_.gather(mine.data(), me_ == root ? all.data() : nullptr, count, dtype, root, "gather").wait();
      if (me_ == root) compare(all, gathered<T>(count), "gather" + rooted);

      const auto partitioned = samples<T>(root, 0, count * n_);
      group_.scatter(me_ == root ? partitioned.data() : nullptr, row.data(), count, dtype, root, "scatter")
          .wait();
      compare(row, samples<T>(root, me_ * count, count), "scatter" + rooted);
    }
    uneven<T>(count);
    messages<T>(count);
  }

  void tree(int64_t num_leaves, int64_t count) {
    const auto [first, last] = micro_batches_of_rank(num_leaves, n_, me_);
    std::vector<std::vector<float>> values;
    std::vector<TreeNode> nodes;
    for (const auto& range : cover_nodes(first, last, num_leaves)) {
      values.push_back(node_sum(range, num_leaves, count));
      nodes.push_back({range.first, range.second, values.back().data()});
    }
    std::vector<float> result(static_cast<size_t>(count));
    const bool in_place = me_ % 2 == 1 && !nodes.empty();
    float* to = in_place ? nodes.back().data : result.data();
    group_.all_reduce_tree(nodes, num_leaves, to, count, "tree").wait();
    compare(std::vector<float>(to, to + count), node_sum({0, num_leaves}, num_leaves, count),
            fmt::format("all_reduce_tree of {} leaves [{}]", num_leaves, count));
  }

  // Several at once, waited for in another order.
  void in_flight() {
    std::vector<std::vector<float>> data;
    std::vector<Work> works;
    for (int k = 0; k < 5; ++k) data.push_back(samples<float>(me_, k, 3000 + k));
    for (auto& one : data)
      works.push_back(group_.all_reduce(one.data(), static_cast<int64_t>(one.size()), Dtype::f32, "k"));
    for (int k = 4; k >= 0; --k) works[static_cast<size_t>(k)].wait();
    for (int k = 0; k < 5; ++k) {
      std::vector<float> sums;
      for (int64_t i = 0; i < 3000 + k; ++i) sums.push_back(levelled_sum<float>(n_, inner_, k + i));
      compare(data[static_cast<size_t>(k)], sums, "all_reduce in flight");
    }
  }

  const std::string& wrong() const { return wrong_; }

 private:
  template <typename T>
  std::vector<T> gathered(int64_t count) const {
    std::vector<T> all;
    for (int r = 0; r < n_; ++r) {
      const auto one = samples<T>(r, 0, count);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  // Rank r sends (r + 2 s) mod 3 times count elements to rank s.
  template <typename T>
  void uneven(int64_t count) {
    const auto length = [&](int from, int to) { return (from + 2 * to) % 3 * count; };
    std::vector<int64_t> to, from;
    std::vector<T> expected;
    for (int r = 0; r < n_; ++r) {
      to.push_back(length(me_, r));
      from.push_back(length(r, me_));
      int64_t before = 0;
      for (int s = 0; s < me_; ++s) before += length(r, s);
      const auto row = samples<T>(r, before, from.back());
      expected.insert(expected.end(), row.begin(), row.end());
    }
    const auto in = samples<T>(me_, 0, std::accumulate(to.begin(), to.end(), int64_t{0}));
    std::vector<T> out(expected.size());
    group_.all_to_all_v(in.data(), to, out.data(), from, DtypeOf<T>::value, "all_to_all_v").wait();
    compare(out, expected, fmt::format("all_to_all_v of {}", count));
  }

  // To everybody, itself among them; all sends are started before any receive.
  template <typename T>
  void messages(int64_t count) {
    const Dtype dtype = DtypeOf<T>::value;
    const auto mine = samples<T>(me_, 0, count);
    std::vector<std::vector<T>> got(static_cast<size_t>(n_), std::vector<T>(static_cast<size_t>(count)));
    std::vector<Work> works;
    for (int r = 0; r < n_; ++r) works.push_back(group_.send(mine.data(), count, dtype, r, "message"));
    for (int r = 0; r < n_; ++r)
      works.push_back(group_.recv(got[static_cast<size_t>(r)].data(), count, dtype, r, "message"));
    for (auto& work : works) work.wait();
    for (int r = 0; r < n_; ++r)
      compare(got[static_cast<size_t>(r)], samples<T>(r, 0, count), fmt::format("message from {}", r));
  }

  template <typename T>
  void compare(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
    if (wrong_.empty() && !same_bits(got, expected)) wrong_ = fmt::format("rank {}: {}", me_, what);
  }

  Group& group_;
  int inner_, me_, n_;
  std::string wrong_;
};

}  // namespace

std::string try_every_call(Group& group, int inner_size) {
  Trial trial(group, inner_size);
  group.barrier("start");
  for (const int64_t count : {0, 1, 7, 1000}) {
    trial.calls<float>(count);
    trial.calls<Bf16>(count);
  }
  trial.calls<double>(33);
  trial.calls<int64_t>(33);
  trial.calls<float>(70'001);  // more than a piece
  for (const int64_t leaves : {1, 2, 3, 5, 8, 13}) trial.tree(leaves, 37);
  trial.tree(7, 40'003);
  trial.tree(3, 0);
  trial.in_flight();
  group.share(nullptr, 1000, "memory");
  group.barrier("end");
  return trial.wrong();
}

}  // namespace athanor::tests
