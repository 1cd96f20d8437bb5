#include "athanor/config/template.h"

#include "athanor/config/effects.h"
#include "athanor/config/fields.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "config/config_testing.h"

namespace athanor::tests::template_test {
namespace {

// The template with the '#' in front of every setting removed.
std::string all_said(const std::string& text) {
  std::string out, line;
  for (const char c : text + "\n") {
    line += c;
    if (c != '\n') continue;
    if (line.starts_with("# ") && line.find(" = ") != std::string::npos) line.erase(0, 2);
    out += line;
    line.clear();
  }
  return out;
}

TEST(Template, EveryPresetReadsAndHasItsSizes) {
  for (const std::string& name : preset_names()) {
    const std::string text = config_template(name);
    Config config = parse(text);
    EXPECT_EQ(config.model.preset, name);
    EXPECT_EQ(config.data.channels.size(), 1);
    EXPECT_NO_THROW(check_effects(config)) << name;
    EXPECT_NO_THROW(check_effects(parse(all_said(text)))) << name;
    resolve_model(config, 8192);
    Config wanted;
    wanted.model.preset = name;
    resolve_model(wanted, 8192);
    EXPECT_EQ(num_params(config.model), num_params(wanted.model)) << name;
  }
}

TEST(Template, NamesEverySettingThatWorksAndItsDefault) {
  const std::string text = config_template("llama-tiny");
  const Config said = parse(all_said(text)), left_out = parse(text);
  EXPECT_EQ(different_keys(said, left_out), std::vector<std::string>{});
  for (const auto& field : config_fields())
    EXPECT_EQ(text.find(std::string(field.name) + " = ") == std::string::npos, is_absent(field.key()))
        << field.key();
  try {
    config_template("llama-tinny");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'llama-tiny'?"), std::string::npos);
  }
}

}  // namespace
}  // namespace athanor::tests::template_test
