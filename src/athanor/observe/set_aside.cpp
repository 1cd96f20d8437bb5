#include "athanor/observe/set_aside.h"

namespace athanor::observe {
namespace {

// How much of `lines`, in complete lines from its beginning, is already at the end of `there`, written by an earlier
// start that died afterwards.
size_t already_there(std::string_view there, std::string_view lines) {
  for (size_t size = lines.size(); size > 0; size = size == 1 ? 0 : lines.rfind('\n', size - 2) + 1)
    if (there.ends_with(lines.substr(0, size))) return size;
  return 0;
}

}  // namespace

void set_aside(Env& env, const std::string& path, std::string_view lines) {
  if (lines.empty()) return;
  if (env.exists(path)) {
    const std::string text = env.read_text(path);
    const size_t whole = text.rfind('\n') + 1;  // 0 where there is none
    if (whole < text.size()) env.truncate(path, whole);
    lines.remove_prefix(already_there(std::string_view(text).substr(0, whole), lines));
    if (lines.empty()) return;
  }
  const auto file = env.append_to(path);
  file->append(lines);
  file->sync();
  file->close();
}

}  // namespace athanor::observe
