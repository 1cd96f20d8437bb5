#include "print.h"

#include <cstdio>

namespace athanor {

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_json(const Json& document) {
  print(document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace athanor
