// athanor tokenizer train.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_tokenizer_train(CLI::App& tokenizer);

}  // namespace athanor::apps
