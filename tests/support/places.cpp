#include "support/places.h"

namespace athanor::tests {

std::string built(const std::string& name) {
  return ATHANOR_BUILD_FOLDER "/" + name;
}

std::string of_source(const std::string& path) {
  return ATHANOR_SOURCE_FOLDER "/" + path;
}

}  // namespace athanor::tests
