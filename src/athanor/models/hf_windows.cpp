#include "athanor/models/hf_windows.h"

#include <fmt/core.h>

#include <charconv>
#include <string_view>

#include "athanor/base/check.h"
#include "athanor/masks/pattern.h"

namespace athanor::models {
namespace {

constexpr std::string_view kCausal = "causal + ", kWindow = "window:";

}  // namespace

void read_window(const HfConfig& config, std::optional<int64_t> without_key, ModelConfig& model) {
  std::optional<int64_t> window = config.names("sliding_window") ? std::nullopt : without_key;
  if (config.has("sliding_window")) window = config.integer("sliding_window");
  if (window && *window < 1)
    config.refuse("sliding_window", fmt::format("got {}, expected at least 1", *window));
  if (window && *window < model.max_position_embeddings)
    model.attention_pattern = fmt::format("{}{}{}", kCausal, kWindow, *window);
}

std::optional<int64_t> window_of(const ModelConfig& model) {
  const AttentionPattern pattern = AttentionPattern::parse(model.attention_pattern);
  if (pattern.is_plain_causal()) return std::nullopt;
  std::string_view text = pattern.text();
  if (text.starts_with(kCausal)) text.remove_prefix(kCausal.size());  // which a window is without saying it
  const bool is_window = text.starts_with(kWindow);
  if (is_window) text.remove_prefix(kWindow.size());
  int64_t window = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), window);
  check(is_window && end.ptr == text.data() + text.size(),
        "model.attention_pattern: got '{}', expected 'causal' or 'causal + window:W' of all layers: no "
        "config.json "
        "of Hugging Face's says more",
        pattern.text());
  return window;
}

}  // namespace athanor::models
