// How --help looks: the same for every subcommand, whoever declared its options.
//
//   app.formatter(help_formatter());   // before the subcommands are added, which inherit it
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace athanor {

std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace athanor
