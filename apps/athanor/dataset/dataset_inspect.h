// athanor dataset inspect: what a token file holds, and where a token or a document of it came from.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_inspect(CLI::App& dataset);

}  // namespace athanor::apps
