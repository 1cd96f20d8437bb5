#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "athanor/launch/diagnosis/stacks.h"

namespace athanor::launch::diagnosis {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  std::string all = text.str();
  while (!all.empty() && all.back() == '\n') all.pop_back();
  return all;
}

// After the name, which may hold anything, in brackets: "4711 (a) name) S 1 ..."
char state_in(const std::string& stat) {
  const size_t end = stat.rfind(')');
  return end != std::string::npos && end + 2 < stat.size() ? stat[end + 2] : '?';
}

}  // namespace

char process_state(pid_t process) {
  return state_in(text_of("/proc/" + std::to_string(process) + "/stat"));
}

ProcessStacks thread_states(pid_t process) {
  ProcessStacks stacks{.process = process};
  std::error_code gone;
  const std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (auto task = std::filesystem::directory_iterator(tasks, gone);
       !gone && task != std::filesystem::directory_iterator(); task.increment(gone)) {
    const std::filesystem::path folder = task->path();
    const std::string number = folder.filename().string();
    ThreadStack thread;
    std::from_chars(number.data(), number.data() + number.size(), thread.thread);
    thread.name = text_of(folder / "comm");
    thread.state = state_in(text_of(folder / "stat"));
    thread.wait_channel = text_of(folder / "wchan");
    if (thread.wait_channel == "0") thread.wait_channel.clear();
    if (thread.state != '?') stacks.threads.push_back(std::move(thread));
  }
  std::sort(stacks.threads.begin(), stacks.threads.end(), [&](const ThreadStack& a, const ThreadStack& b) {
    return (a.thread != process ? a.thread : 0) < (b.thread != process ? b.thread : 0);
  });
  return stacks;
}

}  // namespace athanor::launch::diagnosis
