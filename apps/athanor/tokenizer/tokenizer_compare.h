// athanor tokenizer compare: what several tokenizers make of the same texts.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_tokenizer_compare(CLI::App& tokenizer);

}  // namespace athanor::apps
