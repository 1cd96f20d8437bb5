// athanor checkpoint list | show | verify | digest | export-hf | import-hf (diff: checkpoint_diff.cpp)
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/steady_read.h"
#include "athanor/kernels/table.h"
#include "athanor/models/hf.h"
#include "athanor/models/load.h"
#include "athanor/run/run_history.h"
#include "checkpoint_path.h"
#include "command.h"
#include "loaded_tokenizer.h"

namespace athanor::apps {
namespace {

// Every checkpoint of a path, damaged ones too.
std::vector<std::string> checkpoints_at(const std::string& path) {
  auto found = list_checkpoints(system_env(), path);
  check(!found.empty(), "'{}': got no checkpoints, expected a run, a folder of checkpoints or a checkpoint",
        path);
  return found;
}

// use(path) of each, which returns false where a run removed it meanwhile; all again where it removed all of them.
void for_each_checkpoint(const std::string& path, const std::function<bool(const std::string& found)>& use) {
  bool any = false;
  for (int attempt = 1; !any && attempt <= kReadAttempts; ++attempt)
    for (const std::string& found : checkpoints_at(path)) any = use(found) || any;
}

int64_t num_values(const Checkpoint& checkpoint) {
  int64_t sum = 0;
  for (const TensorEntry& entry : checkpoint.tensors()) sum += entry.shape.numel();
  return sum;
}

struct ListCommand {
  std::string path;
  bool json = false;

  void run() const {
    Json all = Json::array();
    for_each_checkpoint(path, [&](const std::string& found) {
      const StandingCheckpoint standing(system_env(), found);
      Json item = {{"path", found}, {"step", nullptr}, {"tensors", 0}, {"values", 0}, {"error", nullptr}};
      try {
        const Checkpoint checkpoint = Checkpoint::open(system_env(), found);
        item["step"] = checkpoint.step();
        item["tensors"] = checkpoint.tensors().size();
        item["values"] = num_values(checkpoint);
      } catch (const Failure& error) {
        if (!standing.still_stands()) return false;
        item["error"] = error.what();
      }
      all.push_back(std::move(item));
      return true;
    });
    const auto status = run_status(system_env(), path);
    if (json) {
      Json document{{"checkpoints", all}};
      if (status)
        document["run"] = {{"status", status->status},
                           {"reason", status->reason},
                           {"steps", status->steps},
                           {"pid", status->pid},
                           {"host", status->host}};
      return print(document.dump() + "\n");
    }
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
    if (status)
      print(fmt::format("\nrun {} at step {} (process {} on {}){}\n", status->status, status->steps,
                        status->pid, printable(status->host),
                        status->reason.empty() ? "" : ": " + printable(status->reason)));
  }
};

struct ShowCommand {
  std::string path;
  bool json = false;

  void run() const {
    with_checkpoint_at(path, [&](const FoundCheckpoint& found) { show(found); });
  }

 private:
  void show(const FoundCheckpoint& found) const {
    const Checkpoint checkpoint = Checkpoint::open(system_env(), found.path);
    const Json state = Json::parse(checkpoint.state());
    if (json) {
      Json tensors = Json::array();
      for (const TensorEntry& entry : checkpoint.tensors())
        tensors.push_back({{"name", entry.name},
                           {"shape", to_json(entry.shape)},
                           {"dtype", name_of(entry.dtype)},
                           {"file", entry.file}});
      Json document{{"path", checkpoint.path()},
                    {"step", checkpoint.step()},
                    {"values", num_values(checkpoint)},
                    {"state", state},
                    {"tensors", tensors}};
      found.note(document);
      return print(document.dump() + "\n");
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

struct CheckpointVerifyCommand {
  std::string path;
  bool json = false;

  void run() const {
    Json all = Json::array();
    size_t damaged = 0;
    for_each_checkpoint(path, [&](const std::string& found) {
      const StandingCheckpoint standing(system_env(), found);
      Json item = {{"path", found}, {"ok", true}, {"error", nullptr}};
      try {
        Checkpoint::open(system_env(), found).verify();
      } catch (const Failure& error) {
        if (!standing.still_stands()) return false;
        ++damaged;
        item["ok"] = false;
        item["error"] = error.what();
      }
      if (!json)
        print(fmt::format("{}  {}\n", item["ok"].get<bool>() ? "ok     " : "damaged", printable(found)));
      all.push_back(std::move(item));
      return true;
    });
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
    with_checkpoint_at(path, [&](const FoundCheckpoint& found) {
      const Checkpoint checkpoint = Checkpoint::open(system_env(), found.path);
      const std::string digest = checkpoint.digest();
      if (!json) return print(fmt::format("{}  {}\n", digest, printable(checkpoint.path())));
      Json document{{"digest", digest}, {"path", checkpoint.path()}, {"step", checkpoint.step()}};
      found.note(document);
      print(document.dump() + "\n");
    });
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
    with_checkpoint_at(path, [&](const FoundCheckpoint& found) {
      export_hf(system_env(), found.path, folder, chosen);
      if (!json)
        return print(fmt::format("{} -> {} ({})\n", printable(found.path), printable(folder), dtype));
      Json document{{"checkpoint", found.path}, {"folder", folder}, {"dtype", dtype}};
      found.note(document);
      print(document.dump() + "\n");
    });
  }
};

struct CheckpointImportCommand {
  std::string folder, checkpoint;
  bool force = false, json = false;

  void run() const {
    ThreadPool pool(1);
    const auto queue = make_cpu_queue(&pool, best_isa());
    Arena arena(*queue);
    const std::vector<std::string> left_out = import_hf(system_env(), folder, checkpoint, arena, force);
    const bool has_tokenizer = system_env().exists(join_path(folder, kTokenizerFile));
    if (has_tokenizer) load_tokenizer(folder);
    const int64_t values = num_values(Checkpoint::open(system_env(), checkpoint));
    if (json)
      return print(Json{{"folder", folder},
                        {"checkpoint", checkpoint},
                        {"values", values},
                        {"tokenizer", has_tokenizer},
                        {"left_out", left_out}}
                       .dump() +
                   "\n");
    print(fmt::format("{} -> {} ({} parameters)\n", printable(folder), printable(checkpoint),
                      with_commas(values)));
    if (!has_tokenizer) print("  no tokenizer.json there: the checkpoint has no tokenizer\n");
    if (!left_out.empty())
      print(fmt::format("  left out: {}\n", printable(fmt::format("{}", fmt::join(left_out, ", ")))));
  }
};

template <typename Command>
std::pair<std::shared_ptr<Command>, CLI::App*> add_checkpoint_command(CLI::App& parent,
                                                                      const std::string& name,
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

  const auto [list, list_app] =
      add_checkpoint_command<ListCommand>(group, "list", "The checkpoints there are");
  list_app->add_option("PATH", list->path, "a run, a folder of checkpoints or a checkpoint")->required();
  list_app->footer("Example:\n  athanor checkpoint list runs/quickstart");

  const auto [show, show_app] = add_checkpoint_command<ShowCommand>(group, "show", "What a checkpoint holds");
  show_app->add_option("PATH", show->path, kPathHelp)->required();
  show_app->footer("Example:\n  athanor checkpoint show runs/quickstart");

  const auto [verify, verify_app] = add_checkpoint_command<CheckpointVerifyCommand>(
      group, "verify",
      "Read all of a checkpoint, or of every one of a run; exit code 1 where one is damaged");
  verify_app->add_option("PATH", verify->path, "a run, a folder of checkpoints or a checkpoint")->required();
  verify_app->footer("Example:\n  athanor checkpoint verify runs/quickstart");

  const auto [digest, digest_app] = add_checkpoint_command<DigestCommand>(
      group, "digest", "One hash over weights, optimizer, loss scale, step and tokens, whatever the layout");
  digest_app->add_option("PATH", digest->path, kPathHelp)->required();
  digest_app->footer("Example:\n  athanor checkpoint digest runs/quickstart");

  add_checkpoint_diff(group);

  const auto [exporter, export_app] = add_checkpoint_command<ExportCommand>(
      group, "export-hf", "Write a Hugging Face folder: config.json, safetensors, tokenizer.json");
  export_app->add_option("CHECKPOINT", exporter->path, kPathHelp)->required();
  export_app->add_option("FOLDER", exporter->folder, "a new or empty folder")->required();
  export_app->add_option("--dtype", exporter->dtype, "f32 (the master weights), bf16 or f16")
      ->capture_default_str();
  export_app
      ->add_option("--max-shard-bytes", exporter->options.max_shard_bytes, "cut larger models into files")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  export_app->add_flag("--force", exporter->options.force, "replace a model that is already there");
  export_app->footer(
      "Examples:\n"
      "  athanor checkpoint export-hf runs/quickstart hf/\n"
      "  athanor checkpoint export-hf runs/quickstart/checkpoints/step_00000100 hf/ --dtype bf16");

  const auto [importer, import_app] = add_checkpoint_command<CheckpointImportCommand>(
      group, "import-hf", "Turn a Hugging Face folder into a checkpoint of step 0, weights only");
  import_app->add_option("FOLDER", importer->folder, "with config.json and model.safetensors")->required();
  import_app->add_option("CHECKPOINT", importer->checkpoint, "the new checkpoint's folder")->required();
  import_app->add_flag("--force", importer->force, "replace a checkpoint that is already there");
  import_app->footer(
      "Example:\n"
      "  athanor checkpoint import-hf hf/ imported/step_00000000\n"
      "\n"
      "Training can start from either: --set train.init_from=hf/");
}

}  // namespace athanor::apps
