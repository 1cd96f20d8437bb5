// docs/settings.md is what the program says.
#include "athanor/config/settings_page.h"

#include <fmt/format.h>

#include "athanor/base/file.h"
#include "athanor/config/fields.h"
#include "config/config_testing.h"
#include "support/places.h"

namespace athanor::tests::settings_page_test {
namespace {

TEST(SettingsPage, IsTheFileInDocs) {
  const std::string file = system_env().read_text(of_source("docs/settings.md"));
  EXPECT_TRUE(file == settings_page()) << "run: athanor init --settings > docs/settings.md";
}

bool is_sentence(std::string_view text) {
  return text.size() > 20 && text.ends_with('.') && text.find("..") == std::string_view::npos;
}

TEST(SettingsPage, EveryKeySaysWhatItDoesAndWhenToChangeIt) {
  const std::string page = settings_page();
  for (const Field<Config>& field : config_fields()) {
    const std::string_view note = field.note;
    EXPECT_TRUE(note.size() > 5 && !note.ends_with('.') && note.find("  ") == std::string_view::npos)
        << field.key();
    EXPECT_TRUE(is_sentence(field.advice)) << field.key();
    const std::string start = fmt::format("\n## [{}]\n", field.section);
    const size_t section = page.find(start);
    ASSERT_NE(section, std::string::npos) << field.section;
    const size_t key = page.find(fmt::format("\n| `{}` | ", field.name), section);
    EXPECT_LT(key, page.find("\n## ", section + start.size())) << field.key();
  }
}

TEST(SettingsPage, SaysDefaultsLimitsAndAliases) {
  const std::string page = settings_page();
  for (const char* part :
       {"| `steps` | `1000` | integer, at least 1 |", "| `dropout` | `0.0` | number, at least 0, below 1 |",
        "| `dp` | `\"auto\"` | `auto` or integer, at least 1, at most 1048576 |",
        "| `zero_stage` | `0` | integer, at least 0, at most 3 |", "`nvme` (= `disk`)", "runs/&lt;name>",
        "| `ratio` | `0.1` | number, above 0, at most 1 |"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace athanor::tests::settings_page_test
