// athanor checkpoint list | show | verify | digest | diff | export-hf | import-hf
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/kernels/table.h"
#include "athanor/models/hf.h"
#include "athanor/models/load.h"
#include "command.h"

namespace athanor {
namespace {

using Json = nlohmann::ordered_json;

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// Of a run or a folder of checkpoints the newest that verifies; a checkpoint itself as it is.
std::string checkpoint_at(const std::string& path) {
  const auto found = list_checkpoints(system_env(), path);
  if (found.size() == 1 && found[0] == path) return path;
  const WeightsPath weights = find_weights(system_env(), path);
  check(weights.kind == WeightsPath::Kind::checkpoint,
        "'{}': got a Hugging Face folder, expected a checkpoint", path);
  return weights.path;
}

// Every checkpoint of a path, damaged ones too.
std::vector<std::string> checkpoints_at(const std::string& path) {
  const auto found = list_checkpoints(system_env(), path);
  check(!found.empty(), "'{}': got no checkpoints, expected a run, a folder of checkpoints or a checkpoint",
        path);
  return found;
}

int64_t num_values(const Checkpoint& checkpoint) {
  int64_t sum = 0;
  for (const TensorEntry& entry : checkpoint.tensors()) sum += entry.shape.numel();
  return sum;
}

Json to_json(const Shape& shape) {
  Json json = Json::array();
  for (int i = 0; i < shape.dims(); ++i) json.push_back(shape[i]);
  return json;
}

struct ListCommand {
  std::string path;
  bool json = false;

  void run() const {
    Json all = Json::array();
    for (const std::string& found : checkpoints_at(path)) {
      Json item = {{"path", found}, {"step", nullptr}, {"tensors", 0}, {"values", 0}, {"error", nullptr}};
      try {
        const Checkpoint checkpoint = Checkpoint::open(system_env(), found);
        item["step"] = checkpoint.step();
        item["tensors"] = checkpoint.tensors().size();
        item["values"] = num_values(checkpoint);
      } catch (const Failure& error) {
        item["error"] = error.what();
      }
      all.push_back(std::move(item));
    }
    if (json) return print(Json{{"checkpoints", all}}.dump() + "\n");
    print(fmt::format("{:>10}  {:>8}  {:>9}  {}\n", "step", "tensors", "values", "path"));
    for (const Json& item : all) {
      const auto name = printable(item["path"].get<std::string>());
      if (!item["error"].is_null()) {
        print(fmt::format("{:>10}  {:>8}  {:>9}  {}\n{:>10}  {}\n", "damaged", "", "", name, "",
                          printable(item["error"].get<std::string>())));
        continue;
      }
      print(fmt::format("{:>10}  {:>8}  {:>9}  {}\n", item["step"].get<int64_t>(),
                        item["tensors"].get<size_t>(), human_count(item["values"].get<double>()), name));
    }
  }
};

struct ShowCommand {
  std::string path;
  bool json = false;

  void run() const {
    const Checkpoint checkpoint = Checkpoint::open(system_env(), checkpoint_at(path));
    const Json state = Json::parse(checkpoint.state());
    if (json) {
      Json tensors = Json::array();
      for (const TensorEntry& entry : checkpoint.tensors())
        tensors.push_back({{"name", entry.name},
                           {"shape", to_json(entry.shape)},
                           {"dtype", name_of(entry.dtype)},
                           {"file", entry.file}});
      return print(Json{{"path", checkpoint.path()},
                        {"step", checkpoint.step()},
                        {"values", num_values(checkpoint)},
                        {"state", state},
                        {"tensors", tensors}}
                       .dump() +
                   "\n");
    }
    print(fmt::format("path     {}\nstep     {}\nvalues   {} in {} tensors\n", printable(checkpoint.path()),
                      checkpoint.step(), with_commas(num_values(checkpoint)), checkpoint.tensors().size()));
    for (const auto& [key, value] : state.items())
      print(fmt::format("{:<8} {}\n", printable(key), printable(value.dump())));
    print("\n");
    for (const TensorEntry& entry : checkpoint.tensors())
      print(fmt::format("{:<44} {:<5} {:<16} {}\n", printable(entry.name), name_of(entry.dtype),
                        str(entry.shape), printable(entry.file)));
  }
};

struct VerifyCommand {
  std::string path;
  bool json = false;

  void run() const {
    Json all = Json::array();
    size_t damaged = 0;
    for (const std::string& found : checkpoints_at(path)) {
      Json item = {{"path", found}, {"ok", true}, {"error", nullptr}};
      try {
        Checkpoint::open(system_env(), found).verify();
      } catch (const Failure& error) {
        ++damaged;
        item["ok"] = false;
        item["error"] = error.what();
      }
      if (!json)
        print(fmt::format("{}  {}\n", item["ok"].get<bool>() ? "ok     " : "damaged", printable(found)));
      all.push_back(std::move(item));
    }
    if (json) print(Json{{"ok", damaged == 0}, {"checkpoints", all}}.dump() + "\n");
    for (const Json& item : all)
      check(item["ok"].get<bool>(), "{} of {} checkpoints damaged: {}", damaged, all.size(),
            item["error"].is_null() ? "" : item["error"].get<std::string>());
  }
};

struct DigestCommand {
  std::string path;
  bool json = false;

  void run() const {
    const Checkpoint checkpoint = Checkpoint::open(system_env(), checkpoint_at(path));
    const std::string digest = checkpoint.digest();
    if (json)
      return print(Json{{"digest", digest}, {"path", checkpoint.path()}, {"step", checkpoint.step()}}.dump() +
                   "\n");
    print(fmt::format("{}  {}\n", digest, printable(checkpoint.path())));
  }
};

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
    const Checkpoint a = Checkpoint::open(system_env(), checkpoint_at(a_path));
    const Checkpoint b = Checkpoint::open(system_env(), checkpoint_at(b_path));
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
      print(Json{{"equal", equal && state_keys.empty()},
                 {"tensors_equal", equal},
                 {"compared", compared},
                 {"a", {{"path", a.path()}, {"step", a.step()}}},
                 {"b", {{"path", b.path()}, {"step", b.step()}}},
                 {"state", state_keys},
                 {"only_a", only_a},
                 {"only_b", only_b},
                 {"other_shape", other_shape},
                 {"tensors", list}}
                .dump() +
            "\n");
    } else {
      show("only in the first", only_a);
      show("only in the second", only_b);
      show("other shape", other_shape);
      for (const std::string& key : state_keys)
        print(fmt::format("state {}: {} and {}\n", printable(key), value_of(a_state, key),
                          value_of(b_state, key)));
      show_differences(a, differences, compared);
    }
    check(equal && state_keys.empty(), "'{}' and '{}' differ", a.path(), b.path());
  }

 private:
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

struct ExportCommand {
  std::string path, folder, dtype = "f32";
  HfExportOptions options;
  bool json = false;

  void run() const {
    HfExportOptions chosen = options;
    if (dtype != "f32" && dtype != "bf16" && dtype != "f16")
      throw ConfigError(fmt::format("--dtype: got '{}', expected f32, bf16 or f16", dtype));
    chosen.dtype = parse_dtype(dtype);
    const std::string from = checkpoint_at(path);
    export_hf(system_env(), from, folder, chosen);
    if (json) return print(Json{{"checkpoint", from}, {"folder", folder}, {"dtype", dtype}}.dump() + "\n");
    print(fmt::format("{} -> {} ({})\n", printable(from), printable(folder), dtype));
  }
};

struct ImportCommand {
  std::string folder, checkpoint;
  bool force = false, json = false;

  void run() const {
    ThreadPool pool(1);
    const auto queue = make_cpu_queue(&pool, best_isa());
    Arena arena(*queue);
    import_hf(system_env(), folder, checkpoint, arena, force);
    const int64_t values = num_values(Checkpoint::open(system_env(), checkpoint));
    if (json)
      return print(Json{{"folder", folder}, {"checkpoint", checkpoint}, {"values", values}}.dump() + "\n");
    print(fmt::format("{} -> {} ({} parameters)\n", printable(folder), printable(checkpoint),
                      with_commas(values)));
  }
};

constexpr const char* kPathHelp =
    "a run, a folder of checkpoints or a checkpoint; a run means its newest valid one";

template <typename Command>
std::pair<std::shared_ptr<Command>, CLI::App*> add_command(CLI::App& parent, const std::string& name,
                                                           const std::string& help) {
  auto command = std::make_shared<Command>();
  CLI::App* app = parent.add_subcommand(name, help);
  app->add_flag("--json", command->json, "print one JSON document");
  app->callback([command] { command->run(); });
  return {command, app};
}

}  // namespace

void add_checkpoint(CLI::App& app) {
  CLI::App& group = *app.add_subcommand("checkpoint", "List, check, compare, export and import checkpoints");
  group.require_subcommand(1);

  const auto [list, list_app] = add_command<ListCommand>(group, "list", "The checkpoints there are");
  list_app->add_option("PATH", list->path, "a run, a folder of checkpoints or a checkpoint")->required();

  const auto [show, show_app] = add_command<ShowCommand>(group, "show", "What a checkpoint holds");
  show_app->add_option("PATH", show->path, kPathHelp)->required();

  const auto [verify, verify_app] = add_command<VerifyCommand>(
      group, "verify",
      "Read all of a checkpoint, or of every one of a run; exit code 1 where one is damaged");
  verify_app->add_option("PATH", verify->path, "a run, a folder of checkpoints or a checkpoint")->required();

  const auto [digest, digest_app] = add_command<DigestCommand>(
      group, "digest", "One hash over weights, optimizer, loss scale, step and tokens, whatever the layout");
  digest_app->add_option("PATH", digest->path, kPathHelp)->required();

  const auto [diff, diff_app] = add_command<DiffCommand>(
      group, "diff", "Compare two checkpoints; exit code 0: equal bit for bit, 1: they differ");
  diff_app->add_option("A", diff->a_path, kPathHelp)->required();
  diff_app->add_option("B", diff->b_path, "the other")->required();
  diff_app->add_option("--limit", diff->limit, "lines of each kind to show")->capture_default_str();

  const auto [exporter, export_app] = add_command<ExportCommand>(
      group, "export-hf", "Write a Hugging Face folder: config.json, safetensors, tokenizer.json");
  export_app->add_option("CHECKPOINT", exporter->path, kPathHelp)->required();
  export_app->add_option("FOLDER", exporter->folder, "a new or empty folder")->required();
  export_app->add_option("--dtype", exporter->dtype, "f32 (the master weights), bf16 or f16")
      ->capture_default_str();
  export_app
      ->add_option("--max-shard-bytes", exporter->options.max_shard_bytes, "cut larger models into files")
      ->capture_default_str();
  export_app->add_flag("--force", exporter->options.force, "replace a model that is already there");

  const auto [importer, import_app] = add_command<ImportCommand>(
      group, "import-hf", "Turn a Hugging Face folder into a checkpoint of step 0, weights only");
  import_app->add_option("FOLDER", importer->folder, "with config.json and model.safetensors")->required();
  import_app->add_option("CHECKPOINT", importer->checkpoint, "the new checkpoint's folder")->required();
  import_app->add_flag("--force", importer->force, "replace a checkpoint that is already there");
}

}  // namespace athanor
