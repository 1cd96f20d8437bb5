// How --help looks: the same for every subcommand, whoever declared its options.
//
//   app.formatter(help_formatter(80));   // before the subcommands are added, which inherit it
//
// Lines are broken between words where the window ends; what is aligned by hand (examples) is left as it is where it fits.
#pragma once

#include <cstddef>
#include <memory>

namespace CLI {
class FormatterBase;
}

namespace athanor {

std::shared_ptr<CLI::FormatterBase> help_formatter(size_t columns);

}  // namespace athanor
