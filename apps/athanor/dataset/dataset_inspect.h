// athanor dataset inspect: what a token file holds, and where a token or a document of it came from.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class App;
}
namespace athanor {
namespace text {
class Tokenizer;
}
}  // namespace athanor

namespace athanor::apps {

void add_inspect(CLI::App& dataset);

// A tokenizer.json, or the one in a folder.
std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::string& path);

}  // namespace athanor::apps
