// athanor checkpoint diff A B
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/steady_read.h"
#include "athanor/models/load.h"
#include "checkpoint_path.h"

namespace athanor::apps {

void FoundCheckpoint::note(Json& document) const {
  if (!skipped.empty()) document["skipped"] = skipped;
}

namespace {

FoundCheckpoint find_checkpoint(const std::string& path) {
  const auto found = list_checkpoints(system_env(), path);
  if (found.size() == 1 && found[0] == path) return {path};
  WeightsPath weights = find_weights(system_env(), path);
  check(weights.kind == WeightsPath::Kind::checkpoint,
        "'{}': got a Hugging Face folder, expected a checkpoint", path);
  return {std::move(weights.path), std::move(weights.skipped)};
}

}  // namespace

void with_checkpoint_at(const std::string& path, const std::function<void(const FoundCheckpoint&)>& use) {
  FoundCheckpoint found;
  read_steadily(
      system_env(),
      [&] {
        found = find_checkpoint(path);
        return found.path;
      },
      [&](const std::string&) {
        print_warnings(found.skipped);
        use(found);
      });
}

Json to_json(const Shape& shape) {
  Json json = Json::array();
  for (int i = 0; i < shape.dims(); ++i) json.push_back(shape[i]);
  return json;
}

namespace {

// How two tensors of one shape differ.
struct Difference {
  std::string name;
  int64_t values = 0, differing = 0, where = 0;
  double largest = 0.0, relative = 0.0;  // |a - b|, and its norm over that of a
};

struct DiffCommand {
  std::string a_path, b_path;
  size_t limit = 20;
  bool json = false;

  void run() const {
    std::string differ;
    with_checkpoint_at(a_path, [&](const FoundCheckpoint& a) {
      with_checkpoint_at(b_path, [&](const FoundCheckpoint& b) {
        differ = compare(a, b) ? "" : fmt::format("'{}' and '{}' differ", a.path, b.path);
      });
    });
    check(differ.empty(), "{}", differ);
  }

 private:
  // Prints how they differ, if they do; nothing is read any more then.
  bool compare(const FoundCheckpoint& found_a, const FoundCheckpoint& found_b) const {
    const Checkpoint a = Checkpoint::open(system_env(), found_a.path);
    const Checkpoint b = Checkpoint::open(system_env(), found_b.path);
    std::vector<std::string> only_a, only_b, other_shape, state_keys;
    std::vector<Difference> differences;
    size_t compared = 0;
    for (const TensorEntry& entry : a.tensors()) {
      if (!b.has(entry.name)) {
        only_a.push_back(entry.name);
      } else if (b.at(entry.name).shape != entry.shape) {
        other_shape.push_back(
            fmt::format("{}: {} and {}", entry.name, str(entry.shape), str(b.at(entry.name).shape)));
      } else {
        ++compared;
        const Difference difference = compare(a, b, entry);
        if (difference.differing > 0) differences.push_back(difference);
      }
    }
    for (const TensorEntry& entry : b.tensors())
      if (!a.has(entry.name)) only_b.push_back(entry.name);
    const Json a_state = Json::parse(a.state()), b_state = Json::parse(b.state());
    for (const auto& [key, value] : a_state.items())
      if (!b_state.contains(key) || b_state[key] != value) state_keys.push_back(key);
    for (const auto& [key, value] : b_state.items())
      if (!a_state.contains(key)) state_keys.push_back(key);
    std::stable_sort(differences.begin(), differences.end(),
                     [](const Difference& x, const Difference& y) { return x.relative > y.relative; });
    const bool equal = only_a.empty() && only_b.empty() && other_shape.empty() && differences.empty();
    if (json) {
      Json list = Json::array();
      for (const Difference& d : differences)
        list.push_back({{"name", d.name},
                        {"values", d.values},
                        {"differing", d.differing},
                        {"largest", d.largest},
                        {"at", to_json(place(a.at(d.name).shape, d.where))},
                        {"relative", d.relative}});
      Json document{{"equal", equal && state_keys.empty()},
                    {"tensors_equal", equal},
                    {"compared", compared},
                    {"a", {{"path", a.path()}, {"step", a.step()}}},
                    {"b", {{"path", b.path()}, {"step", b.step()}}},
                    {"state", state_keys},
                    {"only_a", only_a},
                    {"only_b", only_b},
                    {"other_shape", other_shape},
                    {"tensors", list}};
      found_a.note(document["a"]);
      found_b.note(document["b"]);
      print(document.dump() + "\n");
    } else {
      show("only in the first", only_a);
      show("only in the second", only_b);
      show("other shape", other_shape);
      for (const std::string& key : state_keys)
        print(fmt::format("state {}: {} and {}\n", printable(key), value_of(a_state, key),
                          value_of(b_state, key)));
      show_differences(a, differences, compared);
    }
    return equal && state_keys.empty();
  }

  static std::string value_of(const Json& state, const std::string& key) {
    return state.contains(key) ? printable(state[key].dump()) : "nothing";
  }

  static Difference compare(const Checkpoint& a, const Checkpoint& b, const TensorEntry& entry) {
    Difference d{.name = entry.name, .values = entry.shape.numel()};
    std::vector<float> x(static_cast<size_t>(d.values)), y(x.size());
    a.read(entry.name, entry.shape, x.data());
    b.read(entry.name, entry.shape, y.data());
    double square = 0.0, norm = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      norm += double{x[i]} * double{x[i]};
      if (std::bit_cast<uint32_t>(x[i]) == std::bit_cast<uint32_t>(y[i])) continue;
      ++d.differing;
      double gap = std::abs(double{x[i]} - double{y[i]});
      if (std::isnan(gap)) gap = INFINITY;
      square += gap * gap;
      if (gap > d.largest || d.differing == 1) {
        d.largest = gap;
        d.where = static_cast<int64_t>(i);
      }
    }
    d.relative = norm > 0.0 ? std::sqrt(square / norm) : std::sqrt(square);
    if (std::isnan(d.relative)) d.relative = INFINITY;
    return d;
  }

  static Shape place(const Shape& shape, int64_t flat) {
    std::vector<int64_t> reversed;
    for (int i = shape.dims() - 1; i >= 0; --i) {
      reversed.push_back(flat % shape[i]);
      flat /= shape[i];
    }
    Shape at;
    for (auto index = reversed.rbegin(); index != reversed.rend(); ++index) at.push_back(*index);
    return at;
  }

  void show(const char* what, const std::vector<std::string>& names) const {
    for (size_t i = 0; i < std::min(limit, names.size()); ++i)
      print(fmt::format("{}: {}\n", what, printable(names[i])));
    if (names.size() > limit) print(fmt::format("{}: {} more\n", what, names.size() - limit));
  }

  void show_differences(const Checkpoint& a, const std::vector<Difference>& differences,
                        size_t compared) const {
    if (!differences.empty())
      print(fmt::format("{:<44} {:>12} {:>12} {:>20}  {}\n", "tensor", "relative", "largest", "differing",
                        "at"));
    for (size_t i = 0; i < std::min(limit, differences.size()); ++i) {
      const Difference& d = differences[i];
      print(fmt::format("{:<44} {:>12.3e} {:>12.3e} {:>20}  {}\n", printable(d.name), d.relative, d.largest,
                        fmt::format("{} of {}", d.differing, d.values),
                        str(place(a.at(d.name).shape, d.where))));
    }
    if (differences.size() > limit) print(fmt::format("{} more\n", differences.size() - limit));
    print(fmt::format("{} of {} tensors of both are equal bit for bit\n", compared - differences.size(),
                      compared));
  }
};

}  // namespace

void add_checkpoint_diff(CLI::App& checkpoint) {
  auto diff = std::make_shared<DiffCommand>();
  CLI::App& app = *checkpoint.add_subcommand(
      "diff", "Compare two checkpoints; exit code 0: equal bit for bit, 1: they differ");
  app.add_option("A", diff->a_path, kPathHelp)->required();
  app.add_option("B", diff->b_path, "the other")->required();
  app.add_option("--limit", diff->limit, "lines of each kind to show")->capture_default_str();
  app.add_flag("--json", diff->json, "print one JSON document");
  app.footer("Example:\n  athanor checkpoint diff runs/a runs/b");
  app.callback([diff] { diff->run(); });
}

}  // namespace athanor::apps
