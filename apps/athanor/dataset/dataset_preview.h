// athanor dataset preview: the sequences of a step as the model reads them, token by token.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_preview(CLI::App& dataset);

}  // namespace athanor::apps
