#include "athanor/engine/state.h"

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"

namespace athanor::engine {

void TrainState::follow(const std::vector<Decision>& all) {
  for (size_t i = decisions.size(); i < all.size() && all[i].step <= step; ++i) decisions.push_back(all[i]);
}

std::string TrainState::to_json() const {
  nlohmann::ordered_json json = {{"step", step},
                                 {"tokens", tokens},
                                 {"updates", updates},
                                 {"seed", seed},
                                 {"loss_scale",
                                  {{"scale", loss_scale.scale},
                                   {"good_steps", loss_scale.good_steps},
                                   {"dynamic", loss_scale.dynamic},
                                   {"window", loss_scale.window}}},
                                 {"data_identity", data_identity}};
  for (const Decision& decision : decisions)
    json["decisions"].push_back(nlohmann::ordered_json::parse(decision_line(decision)));
  return json.dump();
}

TrainState TrainState::from_json(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    TrainState state;
    json.at("step").get_to(state.step);
    json.at("tokens").get_to(state.tokens);
    json.at("updates").get_to(state.updates);
    json.at("seed").get_to(state.seed);
    const auto& scale = json.at("loss_scale");
    scale.at("scale").get_to(state.loss_scale.scale);
    scale.at("good_steps").get_to(state.loss_scale.good_steps);
    scale.at("dynamic").get_to(state.loss_scale.dynamic);
    scale.at("window").get_to(state.loss_scale.window);
    json.at("data_identity").get_to(state.data_identity);
    if (json.contains("decisions"))
      for (const auto& decision : json["decisions"])
        state.decisions.push_back(parse_decision(decision.dump(), "train state: decisions"));
    return state;
  } catch (const nlohmann::json::exception& error) {
    fail("train state: {}", error.what());
  }
}

}  // namespace athanor::engine
