#include "athanor/launch/environment.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "athanor/base/error.h"

namespace athanor {

RankEnvironment parse_rank_environment(const std::function<const char*(const char* name)>& lookup) {
  const auto number = [&](const char* name, int least, int most) -> std::optional<int> {
    const char* text = lookup(name);
    if (text == nullptr) return std::nullopt;
    const std::string_view view(text);
    int value = 0;
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
    if (error != std::errc() || end != view.data() + view.size() || value < least || value > most)
      throw ConfigError(fmt::format("environment variable {}: got \"{}\", expected a number from {} to {}",
                                    name, view, least, most));
    return value;
  };
  const char* const hint = "'athanor launch' sets these; unset them to train in one process";
  const auto world_size = number("WORLD_SIZE", 1, 1 << 20);
  const auto rank = number("RANK", 0, world_size.value_or(1 << 20) - 1);
  RankEnvironment place;
  if (!rank && !world_size) return place;
  if (!rank || !world_size)
    throw ConfigError(fmt::format("environment variable {} is set, but {} is not",
                                  rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK"),
                      hint);
  place.launched = true;
  place.rank = *rank;
  place.world_size = *world_size;
  place.local_world_size = number("LOCAL_WORLD_SIZE", 1, place.world_size).value_or(place.world_size);
  place.local_rank = number("LOCAL_RANK", 0, place.local_world_size - 1).value_or(place.rank);
  place.shm_fd = number("ATHANOR_SHM_FD", 0, 1 << 20).value_or(-1);
  if (place.local_world_size != place.world_size)
    throw ConfigError(fmt::format("environment: {} of {} ranks are on this host, expected all",
                                  place.local_world_size, place.world_size),
                      "ranks on several hosts are not supported");
  if (place.world_size > 1 && place.shm_fd < 0)
    throw ConfigError(fmt::format("environment: rank {} of {} has no ATHANOR_SHM_FD to meet the others",
                                  place.rank, place.world_size),
                      hint);
  return place;
}

}  // namespace athanor
