// athanor doctor: what this machine is and can do, and which kernels would be used on it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>

#include "apps/command_line/own_program.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/check.h"
#include "athanor/base/columns.h"
#include "athanor/base/cpu_limits.h"
#include "athanor/base/host_memory.h"
#include "athanor/base/human.h"
#include "athanor/base/topology.h"
#include "athanor/kernels/cuda/plugin.h"
#include "athanor/kernels/cuda/queue.h"
#include "athanor/kernels/peak.h"
#include "athanor/kernels/table.h"
#include "athanor/observe/report.h"
#include "command.h"

namespace athanor::apps {
namespace {

struct DoctorCommand {
  std::string isa = "auto";
  bool kernels = false, json = false;

  void run() const;
};

int64_t memory_bytes(const std::string& key) {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1)) * 1024;
  return 0;
}

size_t num_nodes(const std::vector<Core>& cores) {
  std::set<int> nodes;
  for (const Core& core : cores) nodes.insert(core.node);
  return nodes.size();
}

struct KernelGroup {
  std::string chosen, refused;
  std::vector<std::pair<std::string, std::string>> kernels;  // name, data types
};

// Kernels that use the same for the same reasons, together.
std::vector<KernelGroup> grouped(const std::vector<KernelChoice>& choices) {
  std::vector<KernelGroup> groups;
  for (const KernelChoice& choice : choices) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const KernelGroup& each) {
      return each.chosen == choice.chosen && each.refused == choice.refused;
    });
    if (group == groups.end()) group = groups.insert(group, {choice.chosen, choice.refused, {}});
    const size_t space = std::min(choice.kernel.find(' '), choice.kernel.size());
    const std::string name = choice.kernel.substr(0, space), dtype = choice.kernel.substr(space);
    if (group->kernels.empty() || group->kernels.back().first != name) group->kernels.emplace_back(name, "");
    group->kernels.back().second += dtype;
  }
  return groups;
}

void show_kernels(const std::vector<KernelChoice>& choices, Console& console) {
  const size_t columns = std::max<size_t>(40, console.columns() - 1);
  const auto lines = [&](const std::string& head, const std::string& text, const std::string& indent) {
    std::string before = head;
    for (const std::string& piece : wrap_columns(text, columns - indent.size())) {
      console.message(before + piece);
      before = indent;
    }
  };
  for (const KernelGroup& group : grouped(choices)) {
    console.message("");
    std::string names;
    for (const auto& [name, dtypes] : group.kernels) {
      if (!names.empty()) names += ", ";
      names += name;
      names += dtypes;
    }
    console.message("use " + group.chosen);
    if (!group.refused.empty()) lines("  refused  ", group.refused, "           ");
    lines("  kernels  ", names, "           ");
  }
}

// The ceilings of the first device, added to the report: "f32 50 TFLOP/s, bf16 790 TFLOP/s, memory 4.2 TB/s"; "" without
// one.
std::string device_ceilings(Report& report) {
  try {
    const auto queue = make_cuda_queue(load_cuda(cuda_plugin()), 0, nullptr);
    const double f32 = measure_peak_flops(*queue, Dtype::f32), bf16 = measure_peak_flops(*queue, Dtype::bf16),
                 copy = measure_copy_bandwidth(*queue);
    report["cuda_peak_f32_gflops"] = f32 * 1e-9;
    report["cuda_peak_bf16_gflops"] = bf16 * 1e-9;
    report["cuda_copy_gbytes_per_second"] = copy * 1e-9;
    return fmt::format("f32 {:.0f} TFLOP/s, bf16 {:.0f} TFLOP/s, memory {:.2f} TB/s", f32 * 1e-12,
                       bf16 * 1e-12, copy * 1e-12);
  } catch (const Failure&) {  // the row "cuda" says why
    return "";
  }
}

void DoctorCommand::run() const {
  const Isa chosen = isa == "auto" ? best_isa() : parse_isa(isa);
  const CpuLimits limits = read_cpu_limits();  // before this thread is bound to one
  const int processors = limits.usable();
  const AvailableMemory free_memory = available_memory();
  const std::vector<Core> cores = usable_cores();
  const Placement placement =
      place_rank(cores, {.ranks = 1, .rank = 0, .threads = processors, .cpu_quota = limits.quota});
  ThreadPool pool(processors, [&](int thread) { bind_this_thread(placement.thread(thread)); });
  const BoundThread bound(placement.thread(0));
  const std::string binding = bound.refusal().empty() ? placement.text() : "not bound: " + bound.refusal();
  const auto queue = make_cpu_queue(&pool, chosen);  // refuses what this machine lacks
  const double f32 = measure_peak_flops(*queue, Dtype::f32), bf16 = measure_peak_flops(*queue, Dtype::bf16);
  Report report;
  report["version"] = ATHANOR_VERSION;
  report["cpu"] = cpu_model();
  report["processors"] = processors;
  report["processors_by_affinity"] = limits.affinity;
  report["cpu_quota"] = limits.quota;  // 0: none
  report["cpu_quota_group"] = limits.group;
  report["cores"] = cores.size();
  report["numa_nodes"] = num_nodes(cores);
  report["binding"] = binding;
  report["isa"] = isa_name(chosen);
  report["memory_bytes"] = memory_bytes("MemTotal");
  report["memory_available_bytes"] = free_memory.bytes;
  report["memory_limit_group"] = free_memory.group;
  report["peak_f32_gflops"] = f32 * 1e-9;
  report["peak_bf16_gflops"] = bf16 * 1e-9;
  std::string cuda = describe_cuda(cuda_plugin());
  if (cuda.starts_with("cuda: ")) cuda.erase(0, std::string_view("cuda: ").size());  // the row says so
  report["cuda"] = cuda;
  const std::string of_device = device_ceilings(report);
  const auto choices = explain_kernels(chosen);
  for (const KernelChoice& choice : choices) {
    Report entry;
    entry["kernel"] = choice.kernel;
    entry["chosen"] = choice.chosen;
    entry["refused"] = choice.refused;
    report["kernels"].push_back(entry);
  }
  if (json) {
    std::cout << report.to_json();
    return;
  }
  const auto console = make_console(false, 1);
  std::string sets;
  for (const Isa each : all_isas())
    if (each <= best_isa()) sets += (sets.empty() ? "" : ", ") + std::string(isa_name(each));
  console->header(
      "athanor doctor",
      {{"version", ATHANOR_VERSION},
       {"processor", fmt::format("{}, {}", cpu_model(), limits.text())},
       {"threads",
        fmt::format("{} cores on {} NUMA node{}, {}, {}", cores.size(), num_nodes(cores),
                    num_nodes(cores) == 1 ? "" : "s",
                    limits.quota > 0.0 ? fmt::format("{} used", processors) : "one thread for each processor",
                    binding)},
       {"instructions", sets + (isa == "auto" ? "" : " (using " + isa + ")")},
       {"memory", fmt::format("{}, {} free{}", human_bytes(static_cast<double>(memory_bytes("MemTotal"))),
                              human_bytes(static_cast<double>(free_memory.bytes)),
                              free_memory.group.empty() ? "" : " in control group " + free_memory.group)},
       {"ceiling", fmt::format("f32 {:.0f} GFLOP/s, bf16 {:.0f} GFLOP/s, all threads together", f32 * 1e-9,
                               bf16 * 1e-9)},
       {"cuda", of_device.empty() ? cuda : cuda + "; " + of_device}});
  if (!kernels) {
    console->message("which kernels are used and why: athanor doctor --kernels");
    return;
  }
  show_kernels(choices, *console);
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("doctor", "What this machine can do, and which kernels would be used");
  auto command = std::make_shared<DoctorCommand>();
  sub->add_flag("--kernels", command->kernels,
                "List the kernel chosen for each operation, and why not a faster one");
  sub->add_option("--isa", command->isa, "Pretend this is the highest instruction set")
      ->capture_default_str();
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->footer(
      "Examples:\n"
      "  athanor doctor\n"
      "  athanor doctor --kernels --isa avx2");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
