#include "athanor/documents/glob.h"

#include <algorithm>
#include <optional>

#include "athanor/base/human.h"

namespace athanor::documents {
namespace {

constexpr std::string_view kAnyFolders = "**";

// One character of a name: a code point, or a byte where there is none.
std::string_view first_character(std::string_view name) {
  return name.substr(0, first_code_point(name).size_bytes);
}

struct ClassMatch {
  size_t size_bytes = 0;  // of the class in the pattern
  bool matches = false;
};

// The class [...] at the start of the pattern against a character; none where no bracket closes it.
std::optional<ClassMatch> match_class(std::string_view pattern, std::string_view character) {
  const bool negated = pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^');
  const uint32_t wanted = first_code_point(character).value;
  bool found = false;
  size_t at = negated ? 2 : 1;
  const size_t first = at;
  const auto next = [&] {  // a member, which a backslash may precede
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const CodePoint point = first_code_point(pattern.substr(at));
    at += point.size_bytes;
    return point.value;
  };
  while (at < pattern.size() && (pattern[at] != ']' || at == first)) {
    const uint32_t low = next();
    uint32_t high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      high = next();
    }
    found |= low <= wanted && wanted <= high;
  }
  if (at >= pattern.size()) return std::nullopt;
  return ClassMatch{at + 1, found != negated};
}

// What the pattern, which does not begin with *, says of the first character of a name: how much of the pattern is then
// done; 0: it does not match.
size_t match_first(std::string_view pattern, std::string_view name) {
  if (pattern.empty() || name.empty()) return 0;
  if (pattern[0] == '?') return 1;
  if (pattern[0] == '[')
    if (const auto match = match_class(pattern, name)) return match->matches ? match->size_bytes : 0;
  const size_t escape = pattern[0] == '\\' && pattern.size() > 1 ? 1 : 0;
  const std::string_view character = first_character(name);
  return pattern.substr(escape).starts_with(character) ? escape + character.size() : 0;
}

bool name_matches(std::string_view pattern, std::string_view name) {
  std::optional<std::string_view> behind_star,
      retry;  // the pattern behind the last *, and where in the name it begins
  while (!name.empty() || !pattern.empty()) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      behind_star = pattern;
      retry = name;
      continue;
    }
    if (const size_t done = match_first(pattern, name); done > 0) {
      pattern.remove_prefix(done);
      name.remove_prefix(first_character(name).size());
      continue;
    }
    if (!behind_star || retry->empty()) return false;
    retry->remove_prefix(first_character(*retry).size());
    name = *retry;
    pattern = *behind_star;
  }
  return true;
}

}  // namespace

bool Glob::is_glob(std::string_view path) {
  for (size_t at = 0; at < path.size(); ++at) {
    if (path[at] == '*' || path[at] == '?') return true;
    if (path[at] == '[' && path.substr(0, path.find('/', at)).find(']', at + 2) != std::string_view::npos)
      return true;
    if (path[at] == '\\') ++at;
  }
  return false;
}

Glob::Glob(std::string_view pattern) {
  size_t from = 0;
  bool in_base = true;
  while (from <= pattern.size()) {
    const size_t slash = std::min(pattern.find('/', from), pattern.size());
    const std::string_view component = pattern.substr(from, slash - from);
    in_base = in_base && !is_glob(component);
    if (in_base)
      base_ = pattern.substr(0, std::max<size_t>(slash, 1));
    else if (!component.empty())
      components_.emplace_back(component);
    from = slash + 1;
  }
}

void Glob::add(Places& places, size_t place) const {
  if (std::find(places.begin(), places.end(), place) != places.end()) return;
  places.push_back(place);
  if (place < components_.size() && components_[place] == kAnyFolders) add(places, place + 1);
}

Glob::Places Glob::start() const {
  Places places;
  add(places, 0);
  return places;
}

Glob::Places Glob::step(const Places& places, std::string_view name, bool hidden_too) const {
  Places next;
  for (const size_t place : places) {
    if (place == components_.size()) continue;
    const std::string& component = components_[place];
    if (name.starts_with('.') && !component.starts_with('.') && !hidden_too) continue;
    if (component == kAnyFolders)
      add(next, place);
    else if (name_matches(component, name))
      add(next, place + 1);
  }
  return next;
}

bool Glob::matches(const Places& places) const {
  return std::find(places.begin(), places.end(), components_.size()) != places.end();
}

}  // namespace athanor::documents
