// The formatter of --help, the same for every subcommand.
//
//   app.formatter(help_formatter(80));   // before the subcommands are added, which inherit it
//
// Lines are wrapped between words at the window's width. Lines that are aligned by hand (examples) stay as they are if
// they fit.
#pragma once

#include <cstddef>
#include <memory>

namespace CLI {
class FormatterBase;
}

namespace athanor::apps {

std::shared_ptr<CLI::FormatterBase> help_formatter(size_t columns);

}  // namespace athanor::apps
