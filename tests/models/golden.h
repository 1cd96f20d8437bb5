// The golden values of tests/golden, as tests of models and of training steps use them.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "athanor/base/file.h"
#include "athanor/models/hf.h"
#include "athanor/models/load.h"
#include "support/engine.h"
#include "support/places.h"

namespace athanor::tests {

constexpr const char* kGoldenModels[] = {"bert",       "gpt2",    "gpt2_nobias", "llama",
                                         "llama_tied", "mistral", "mixtral",     "roberta"};

inline std::string golden_folder(const std::string& model) {
  return of_source("tests/golden/" + model);
}

inline nlohmann::json golden_json(const std::string& model) {
  return nlohmann::json::parse(system_env().read_text(join_path(golden_folder(model), "golden.json")));
}

inline std::vector<int32_t> golden_ids(const nlohmann::json& golden, int64_t batch, const char* what) {
  std::vector<int32_t> ids;
  for (const auto& row : golden["batches"][static_cast<size_t>(batch)][what])
    for (const auto& id : row) ids.push_back(id.get<int32_t>());
  return ids;
}

constexpr int64_t kGoldenBatch = 3, kGoldenLength = 40;

}  // namespace athanor::tests
