#include "athanor/run/agreement.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/base/human.h"
#include "athanor/checkpoint/format/manifest.h"
#include "athanor/config/fields.h"
#include "athanor/config/print.h"

namespace athanor::run {
namespace {

// Settings that may differ between ranks. All others, future ones included, must be equal.
constexpr std::array<std::string_view, 9> kOfEachRank = {
    "train.threads",   "train.pin_threads",                    // no result depends on them
    "train.log_every", "train.trace",                          // outputs of this rank beside the run
    "train.runs",      "train.init_from",   "data.tokenizer",  // paths whose content is compared
    "data.cache",      "offload.path"};                        // folders local to a host

constexpr size_t kNamedDifferences = 3;

std::string channels_value(const std::vector<ChannelConfig>& channels) {
  std::string text;  // without the paths, whose content is compared
  for (const auto& channel : channels)
    text +=
        fmt::format("{}{} (weight {})", text.empty() ? "" : ", ", printable(channel.name), channel.weight);
  return text;
}

std::string serialized(const std::vector<Fact>& facts) {
  nlohmann::json list = nlohmann::json::array();
  for (const Fact& fact : facts) list.push_back({fact.key, fact.value});
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<Fact> parse_facts(const std::string& text) {
  std::vector<Fact> facts;
  for (const auto& entry : nlohmann::json::parse(text))
    facts.push_back({entry.at(0).get<std::string>(), entry.at(1).get<std::string>()});
  return facts;
}

std::string difference_from_rank_0(int rank, const std::vector<Fact>& mine, const std::vector<Fact>& first) {
  std::map<std::string, std::string> here;
  for (const Fact& fact : mine) here.emplace(fact.key, fact.value);
  std::vector<std::string> differences;
  for (const Fact& fact : first) {
    const auto found = here.find(fact.key);
    if (found == here.end()) {
      differences.push_back(
          fmt::format("{}: got none on rank {}, expected {} as on rank 0", fact.key, rank, fact.value));
    } else {
      if (found->second != fact.value)
        differences.push_back(fmt::format("{}: got {} on rank {}, expected {} as on rank 0", fact.key,
                                          found->second, rank, fact.value));
      here.erase(found);
    }
  }
  for (const auto& [key, value] : here)
    differences.push_back(fmt::format("{}: got {} on rank {}, expected none as on rank 0", key, value, rank));
  std::string text;
  for (size_t i = 0; i < std::min(differences.size(), kNamedDifferences); ++i)
    text += (i == 0 ? "" : "; ") + differences[i];
  if (differences.size() > kNamedDifferences)
    text += fmt::format("; and {} more", differences.size() - kNamedDifferences);
  return text;
}

Isa agree_on_isa(const Config& config, Group& group, Isa highest, std::string* note) {
  std::vector<int64_t> of_rank(static_cast<size_t>(group.size()));
  const auto mine = static_cast<int64_t>(highest);
  group.all_gather(&mine, of_rank.data(), 1, Dtype::i64, "agree.isa").wait();
  const auto lowest = std::min_element(of_rank.begin(), of_rank.end());
  const Isa common = static_cast<Isa>(*lowest);
  const auto highest_of_all = static_cast<Isa>(*std::max_element(of_rank.begin(), of_rank.end()));
  if (config.train.isa == "auto" && common < highest_of_all)
    *note = fmt::format("instruction set {}: rank {} has no more, others have {}", isa_name(common),
                        lowest - of_rank.begin(), isa_name(highest_of_all));
  if (config.train.isa == "auto" || parse_isa(config.train.isa) <= common) return common;
  throw ConfigError(  // all ranks have seen the same
      fmt::format("train.isa: got '{}', expected at most '{}': rank {} has no more", config.train.isa,
                  isa_name(common), lowest - of_rank.begin()),
      "train.isa = \"auto\" takes the highest instruction set that all ranks have");
}

}  // namespace

bool may_differ_between_ranks(std::string_view key) {
  return std::find(kOfEachRank.begin(), kOfEachRank.end(), key) != kOfEachRank.end();
}

std::vector<Fact> settings_facts(const Config& config) {
  const auto json = nlohmann::json::parse(config_to_json(config));
  std::vector<Fact> facts;
  for (const auto& field : config_fields()) {
    const std::string key = field.key();
    if (may_differ_between_ranks(key)) continue;
    std::string value = json.at(field.section).at(field.name).dump();
    if (key == "data.channels") value = channels_value(config.data.channels);
    if (key == "parallel.schedule" && !config.parallel.schedule_csv.empty())
      value = fmt::format("a table with hash {:016x}", hash64(config.parallel.schedule_csv));
    facts.push_back({key, std::move(value)});
  }
  std::string phases = setting_text(config, "phase");
  for (const Phase& phase : config.phases)
    if (!phase.schedule_csv.empty()) phases += fmt::format(" {:016x}", hash64(phase.schedule_csv));
  facts.push_back({"phase", std::move(phases)});
  facts.push_back({"version of the program", ATHANOR_VERSION});
  facts.push_back({"version of checkpoints", fmt::format("{}", kManifestVersion)});
  return facts;
}

std::vector<Fact> data_facts(std::string_view identity) {
  std::vector<Fact> facts;
  for (size_t start = 0; start < identity.size();) {
    const size_t end = std::min(identity.find('\n', start), identity.size());
    const std::string_view line = identity.substr(start, end - start);
    const size_t colon = std::min(line.find("': "), line.size());  // a channel's name may hold a colon
    const size_t cut = colon < line.size() ? colon + 1 : std::min(line.find(": "), line.size());
    facts.push_back(
        {std::string(line.substr(0, cut)), std::string(line.substr(std::min(line.size(), cut + 2)))});
    start = end + 1;
  }
  return facts;
}

void refuse_together(Group& group, const std::string& complaint, const std::string& hint) {
  if (group.size() == 1) {
    if (!complaint.empty()) throw ConfigError(complaint, hint);
    return;
  }
  std::vector<int64_t> sizes(static_cast<size_t>(group.size()));
  const auto mine = static_cast<int64_t>(complaint.size());
  group.all_gather(&mine, sizes.data(), 1, Dtype::i64, "agree.complaints").wait();
  const auto first = std::find_if(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
  if (first == sizes.end()) return;
  const auto root = static_cast<int>(first - sizes.begin());
  std::string text = group.rank() == root ? complaint : std::string(static_cast<size_t>(*first), '\0');
  group.broadcast(text.data(), *first, Dtype::u8, root, "agree.complaint").wait();
  try {
    group.barrier("agree.refused");  // no rank exits before all have the complaint
  } catch (const Recoverable&) {     // another rank has already passed this barrier and exited
  }
  throw ConfigError(text, hint);
}

void agree(Group& group, const std::vector<Fact>& mine, const std::string& hint) {
  if (group.size() == 1) return;
  std::string text = serialized(mine);
  const int64_t own[2] = {static_cast<int64_t>(hash64(text)), static_cast<int64_t>(text.size())};
  std::vector<int64_t> all(2 * static_cast<size_t>(group.size()));
  group.all_gather(own, all.data(), 2, Dtype::i64, "agree.hash").wait();
  bool same = true;
  for (size_t i = 0; i < all.size(); i += 2) same = same && all[i] == all[0] && all[i + 1] == all[1];
  if (same) return;
  if (group.rank() != 0) text.assign(static_cast<size_t>(all[1]), '\0');
  group.broadcast(text.data(), all[1], Dtype::u8, 0, "agree.facts").wait();
  refuse_together(
      group, group.rank() == 0 ? "" : difference_from_rank_0(group.rank(), mine, parse_facts(text)), hint);
}

Config agree_on_settings(const Config& config, Group& group, Isa highest, std::string* note) {
  agree(group, settings_facts(config),
        "each rank reads a config of its own: give all of them the same file, the same --set and the same "
        "program");
  if (config.train.device == "cuda") return config;
  const Isa common = agree_on_isa(config, group, highest, note);
  if (config.train.isa != "auto" || common >= best_isa()) return config;
  Config agreed = config;
  agreed.train.isa = isa_name(common);
  agreed.origins["train.isa"] = {Origin::Kind::derived, "derived: the highest that all ranks have"};
  return agreed;
}

}  // namespace athanor::run
