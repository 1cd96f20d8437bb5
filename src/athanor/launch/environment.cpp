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
  RankEnvironment place;
  auto world_size = number("WORLD_SIZE", 1, 1 << 20);
  auto rank = number("RANK", 0, world_size.value_or(1 << 20) - 1);
  auto local_size_name = "LOCAL_WORLD_SIZE", local_rank_name = "LOCAL_RANK";
  if (!rank && !world_size) {
    world_size = number("OMPI_COMM_WORLD_SIZE", 1, 1 << 20);
    if (!world_size) return place;
    rank = number("OMPI_COMM_WORLD_RANK", 0, *world_size - 1);
    place.mpi = true;
    local_size_name = "OMPI_COMM_WORLD_LOCAL_SIZE", local_rank_name = "OMPI_COMM_WORLD_LOCAL_RANK";
  }
  if (!rank || !world_size)
    throw ConfigError(fmt::format("environment variable {} is set, but {} is not",
                                  rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK"),
                      hint);
  if (const char* master = lookup("MASTER_ADDR")) place.master_address = master;
  place.master_port = number("MASTER_PORT", 1, 65535).value_or(place.master_port);
  place.launched = true;
  place.rank = *rank;
  place.world_size = *world_size;
  if (!place.mpi) place.shm_fd = number("ATHANOR_SHM_FD", 0, 1 << 20).value_or(-1);
  const bool one_host = place.shm_fd >= 0 || place.mpi;
  place.local_world_size =
      number(local_size_name, 1, place.world_size).value_or(one_host ? place.world_size : 1);
  place.local_rank =
      number(local_rank_name, 0, place.local_world_size - 1).value_or(place.rank % place.local_world_size);
  if (place.world_size == 1 || place.mpi) return place;
  if (place.shm_fd < 0 && place.master_address.empty())
    throw ConfigError(
        fmt::format(
            "environment: rank {} of {} has neither ATHANOR_SHM_FD nor MASTER_ADDR to meet the others",
            place.rank, place.world_size),
        hint);
  if (place.local_world_size == place.world_size) return place;
  if (place.master_address.empty())
    throw ConfigError(
        fmt::format("environment: {} of {} ranks are on this host, and there is no MASTER_ADDR to "
                    "meet the others",
                    place.local_world_size, place.world_size),
        hint);
  if (place.shm_fd >= 0 && (place.world_size % place.local_world_size != 0 ||
                            place.rank % place.local_world_size != place.local_rank))
    throw ConfigError(
        fmt::format(
            "environment: rank {} of {} is LOCAL_RANK {} of {}, expected as many ranks on each host, in "
            "order",
            place.rank, place.world_size, place.local_rank, place.local_world_size),
        hint);
  return place;
}

}  // namespace athanor
