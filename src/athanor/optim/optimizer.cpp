#include "athanor/optim/optimizer.h"

#include "athanor/optim/adamw.h"
#include "athanor/optim/sgd.h"

namespace athanor {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          const std::vector<std::unique_ptr<Param>>& params) {
  std::vector<Param*> list;
  for (const auto& param : params)
    if (!param->is_state()) list.push_back(param.get());
  if (options.name == "adamw") return std::make_unique<AdamW>(options, std::move(list));
  if (options.name == "sgd") return std::make_unique<Sgd>(options, std::move(list));
  fail("optimizer: got '{}', expected adamw or sgd", options.name);
}

}  // namespace athanor
