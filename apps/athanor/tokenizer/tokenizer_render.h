// athanor tokenizer render: conversations become text by a chat template.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_tokenizer_render(CLI::App& tokenizer);

}  // namespace athanor::apps
