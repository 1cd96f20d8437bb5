#include "athanor/observe/sample_log.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace athanor::observe {
namespace {

// Whether a line is a sample of a step up to this one.
bool is_kept(std::string_view line, int64_t step) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto found = json.find("step");
  return found != json.end() && found->is_number_integer() && found->get<int64_t>() <= step;
}

}  // namespace

std::string sample_line(const TextSample& sample) {
  const nlohmann::ordered_json json{{"step", sample.step}, {"prompt", sample.prompt}, {"text", sample.text}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

SampleLog::SampleLog(Env& env, const std::string& path, int64_t resumed_step) : env_(env), path_(path) {
  if (!env.exists(path)) return;
  const std::string text = env.read_text(path);
  std::string kept;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // torn by a kill
    if (is_kept(rest.substr(0, end), resumed_step)) kept += rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
  }
  if (kept.size() < text.size()) env.write_atomically(path, kept);
}

void SampleLog::write(const TextSample& sample) {
  if (file_ == nullptr) file_ = env_.append_to(path_);
  file_->append(sample_line(sample) + '\n');
  file_->flush();
}

}  // namespace athanor::observe
