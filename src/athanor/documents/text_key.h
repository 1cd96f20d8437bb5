// Says what the text of a record consists of: the name of a key, a path of keys, or a template.
//
//   TextKey("text")                 the string under "text"
//   TextKey("message.content")      the string under "content" of the object under "message"
//   TextKey("{title}\n\n{body}")    both strings, in a template; {a.b} is a path, {{ and }} stand for braces
//
// A key that itself is named "message.content" goes before the path.
// Thread rule: does not change after it was made. Errors: ConfigError for a template that is not well formed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::documents {

class TextKey {
 public:
  // The text is before[0], key 0, before[1], key 1, ..., after.
  struct Part {
    std::string before;
    std::string key;  // a name or path
  };

  explicit TextKey(const std::string& key);

  const std::vector<Part>& parts() const { return parts_; }  // at least one
  const std::string& after() const { return after_; }
  // The text is the string under one key, as it stands.
  bool is_plain() const { return !is_template_; }

 private:
  std::vector<Part> parts_;
  std::string after_;
  bool is_template_ = false;
};

}  // namespace athanor::documents
