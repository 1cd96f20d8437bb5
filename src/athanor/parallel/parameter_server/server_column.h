// What a server does for one column of ranks: takes the sums of its workers, and gives them its rows of the parameters.
// server.h says when.
//
//   ServerColumn column(weights, {.ranks = all, .peers = servers, .settings = settings}, arena);
//   column.take_step(1);                                     // sync: of all workers; or take_push(worker, step)
//   column.finish();                                         // column.grad(param) is the sum
//   column.add_squares(model.params(), squares);             // of the parameters that it has
//   column.send_values(worker, [&](Work work) { ... });
//
// Where compression is on, what comes are codes, and what is summed is what they decode to. On the null device memory is
// taken and nothing comes. Errors: the group's; those of server_shard.h. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "athanor/parallel/grain_shares.h"
#include "athanor/parallel/parameter_server/coded_push.h"
#include "athanor/parallel/parameter_server/server_shard.h"

namespace athanor {

class ServerColumn {
 public:
  ServerColumn(const std::vector<Weight*>& weights, const Column& column, Arena& arena);

  const ServerSettings& settings() const { return column_.settings; }
  Group& ranks() { return column_.ranks; }
  Group& servers() { return column_.peers; }
  // From worker 0 come the shares of grains, from which the order of sums follows.
  std::vector<int64_t> receive_shares();
  void share_grains(std::vector<int64_t> counts) { grains_.set(std::move(counts)); }
  void take_step(int64_t step);
  void take_push(int worker, int64_t step);
  void finish() { shard_.finish(); }
  bool has(const Param& param) const { return shard_.has(param); }
  const Tensor& grad(const Param& param) const { return shard_.grad(param); }
  // Of each of these that the column has, the sum of squares of its gradient, all servers' rows. Collective.
  void add_squares(const std::vector<std::unique_ptr<Param>>& params, std::vector<double>& squares);
  void send_values(int worker, const std::function<void(Work)>& keep);

 private:
  void receive(int worker, size_t bucket, int64_t step);
  void take_step(size_t bucket, int64_t step);
  size_t num_buckets() const { return shard_.buckets().list.size(); }

  Column column_;
  ServerShard shard_;
  std::unique_ptr<CodedRows> coded_;  // null: nothing is compressed
  GrainShares grains_;                // of the workers
};

}  // namespace athanor
