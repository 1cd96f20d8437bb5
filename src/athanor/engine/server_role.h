// The role of a parameter server: it applies the workers' gradients to its shard of the parameters. See role.h and
// parallel/parameter_server/server.h.
//
//   ServerRole role(declared);
//   role.publish(state);
//   Served served = role.serve();   // until all workers are at a commit
//
// Errors: those of ParameterServer. Thread rule: one thread.
#pragma once

#include "athanor/engine/role.h"
#include "athanor/parallel/parameter_server/server.h"

namespace athanor::engine {

class ServerRole final : public Role {
 public:
  explicit ServerRole(const Declared& declared);

  bool keeps(const ParamSpec& param) const override { return !param.is_state(); }  // workers own buffers
  void publish(const TrainState& state) override;
  void settle() override { server_->finish(); }
  bool serves() const override { return true; }
  Served serve() override { return server_->serve(); }
  void rehearse() override { server_->rehearse(); }
  const Tensor* grad(Param& param) override { return &server_->grad(param); }
  std::vector<Optimizer::State> optimizer_states() const override { return optimizer_->states(); }

 private:
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<ParameterServer> server_;
};

}  // namespace athanor::engine
