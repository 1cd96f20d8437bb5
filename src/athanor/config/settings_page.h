// docs/settings.md: every setting with what it does, its default, its values, when to change it and what it costs, made
// from the list of settings (fields.h), so that it is never out of date.
//
//   athanor init --settings > docs/settings.md      // a test holds the file to it
//
// Thread rule: a pure function.
#pragma once

#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::config {

std::string settings_page();

}  // namespace athanor::config
