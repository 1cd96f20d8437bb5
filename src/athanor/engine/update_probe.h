// How large an update is beside the weights, by a sample of them: the middle values of each parameter of this rank, read
// before and after.
//
//   UpdateProbe probe(model, /*is_on=*/true);
//   probe.before();
//   optimizer.step(grad, step);
//   probe.after();
//   const double squared_size = probe.update_squares() / probe.weight_squares();     // of their sums over all ranks
//
// It reads a few hundred bytes a parameter, whatever the size of the model. Thread rule: one thread.
#pragma once

#include <vector>

#include "athanor/models/model.h"

namespace athanor::engine {

class UpdateProbe {
 public:
  UpdateProbe(const Model& model, bool is_on) : model_(model), is_on_(is_on) {}
  void before();
  void after();
  void none();  // there was no update

  // Of the last update; 0: there was none, or nothing is measured.
  double update_squares() const { return update_squares_; }
  double weight_squares() const { return weight_squares_; }

 private:
  std::vector<float> sample() const;

  const Model& model_;
  bool is_on_;
  std::vector<float> before_ = {};
  double update_squares_ = 0.0, weight_squares_ = 0.0;
};

}  // namespace athanor::engine
