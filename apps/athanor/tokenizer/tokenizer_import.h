// athanor tokenizer import.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_tokenizer_import(CLI::App& parent);

}  // namespace athanor::apps
