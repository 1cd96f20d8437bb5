#include "print.h"

#include <cstdio>

#include "athanor/base/human.h"

namespace athanor::apps {

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_json(const Json& document) {
  print(document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_warnings(const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    std::fprintf(stderr, "athanor: warning: %s\n", printable(text).c_str());
}

}  // namespace athanor::apps
