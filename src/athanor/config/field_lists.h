// What config_fields() (fields.h) is made of, one list for each header of settings, and the words of its lines.
// Private to config/. Thread rule: pure functions.
#pragma once

#include <utility>

#include "athanor/config/fields.h"

namespace athanor::config {

std::vector<Field<Config>> model_fields();     // model_config.h
std::vector<Field<Config>> train_fields();     // data_config.h, train_config.h
std::vector<Field<Config>> parallel_fields();  // parallel_config.h
std::vector<Field<Config>> run_fields();       // run_config.h

template <auto Section, auto Member>
Slot at(Config& config) {
  return &((config.*Section).*Member);
}

// No product of a few settings may leave 64 bits; these limits are far above any machine.
inline constexpr long double kMany = 1LL << 40;
inline constexpr long double kMaxInt = std::numeric_limits<int64_t>::max();

inline Traits at_least(long double low, long double high = kMany) {
  return {.range = {low, high}};
}
inline Traits above(long double low) {
  return {.range = {.low = low, .low_open = true}};
}
inline Traits within(long double low, long double high) {
  return {.range = {low, high}};
}
inline Traits below(long double low, long double high) {
  return {.range = {low, high, false, true}};
}
inline Traits one_of(std::vector<std::string> names) {
  return {.choices = std::move(names)};
}
inline Traits one_of_with(std::vector<std::string> names,
                          std::vector<std::pair<std::string, std::string>> aliases) {
  return {.choices = std::move(names), .aliases = std::move(aliases)};
}
inline Traits any() {
  return {};
}
inline Traits path() {
  return {.is_path = true};
}

}  // namespace athanor::config
