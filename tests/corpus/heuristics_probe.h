// What a preset of heuristic rules says of one text, for tests.
//
//   EXPECT_EQ(probe("gopher", text).value("gopher.words"), 50);
//   EXPECT_FALSE(probe("gopher", text).breaks("gopher.words"));
//
// Thread rule: plain data.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "athanor/corpus/heuristics/heuristics.h"

namespace athanor::tests::heuristics_probe {

struct Probe {
  std::unique_ptr<Stage> stage;
  std::vector<double> values;
  std::string text;  // after annotate()

  double value(const std::string& name) const {
    for (size_t i = 0; i < values.size(); ++i)
      if (stage->scores()[i].name == name) return values[i];
    ADD_FAILURE() << "no score " << name;
    return 0;
  }
  bool breaks(const std::string& name) const {
    for (const Rule& rule : stage->rules())
      if (rule.name == name) return rule.broken_by(values);
    ADD_FAILURE() << "no rule " << name;
    return false;
  }
};

inline Probe probe(const std::string& preset, std::string text, const std::string& id = "a/0") {
  Probe probe{make_heuristics({.preset = preset}), {}, {}};
  probe.values.assign(probe.stage->scores().size(), -1);
  Document document{.id = id, .text = std::move(text)};
  probe.stage->annotate(document, probe.values);
  probe.text = document.text;
  return probe;
}

inline std::string times(const std::string& part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

// A text for which the score is `value`, and whether the rule of that name keeps it.
struct Case {
  const char* rule;
  std::string text;
  double value;
  bool kept;
};

inline void expect_cases(const std::string& preset, const std::vector<Case>& cases,
                         const std::string& id = "a/0") {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.rule + (": " + one.text.substr(0, 60)));
    const Probe got = probe(preset, one.text, id);
    EXPECT_EQ(got.value(one.rule), one.value);
    EXPECT_EQ(got.breaks(one.rule), !one.kept);
  }
}

}  // namespace athanor::tests::heuristics_probe
