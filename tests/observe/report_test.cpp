#include "athanor/observe/report.h"

#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"

namespace athanor::tests::report_test {
namespace {

TEST(Report, IsAnOrderedTree) {
  Report report;
  report["ranks"] = 2;
  report["loss"]["zh"] = 0.1;
  report["loss"]["en"] = std::nan("");
  report["name"] = "q\"中";
  report["phases"].push_back("tokenize");
  report["phases"].push_back(true);
  report["ranks"] = 3;
  report["open"];
  EXPECT_EQ(report.to_json(), R"({
  "ranks": 3,
  "loss": {
    "zh": 0.1,
    "en": null
  },
  "name": "q\"中",
  "phases": [
    "tokenize",
    true
  ],
  "open": null
}
)");
}

TEST(Report, KeepsEveryInteger) {
  Report report;
  report["big"] = int64_t{9007199254740993};
  report["size"] = size_t{7};
  EXPECT_EQ(nlohmann::json::parse(report.to_json())["big"], 9007199254740993);
  EXPECT_EQ(nlohmann::json::parse(report.to_json())["size"], 7);
}

TEST(Report, MisuseIsAnError) {
  Report report = 5;
  EXPECT_THROW(report["key"], Error);
  EXPECT_THROW(report.push_back(1), Error);
  Report object;
  object["a"] = 1;
  EXPECT_THROW(object.push_back(1), Error);
}

TEST(Report, EnvironmentSaysWhatRanOnWhat) {
  const auto json =
      nlohmann::json::parse(environment_report("0.1", {"athanor", "train", "\xff.toml"}).to_json());
  EXPECT_EQ(json["version"], "0.1");
  EXPECT_EQ(json["command_line"][1], "train");
  EXPECT_GT(json["memory_bytes"], 1 << 20);
  EXPECT_GE(json["usable_cpus"], 1);
  for (const char* key : {"cpu", "isa", "host", "kernel"})
    EXPECT_FALSE(json[key].get<std::string>().empty()) << key;
}

}  // namespace
}  // namespace athanor::tests::report_test
