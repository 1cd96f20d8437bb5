#include "athanor/observe/report.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/cpu.h"

namespace athanor::observe {

Report Report::list() {
  Report report;
  report.value_ = List();
  return report;
}

Report Report::object() {
  Report report;
  report.value_ = Object();
  return report;
}

Report& Report::operator[](std::string_view key) {
  if (std::holds_alternative<std::monostate>(value_)) value_ = Object();
  auto* object = std::get_if<Object>(&value_);
  check(object != nullptr, "report: got the key '{}' of a value that is no object", key);
  for (auto& [name, value] : *object)
    if (name == key) return value;
  return object->emplace_back(std::string(key), Report()).second;
}

void Report::push_back(Report value) {
  if (std::holds_alternative<std::monostate>(value_)) value_ = List();
  auto* list = std::get_if<List>(&value_);
  check(list != nullptr, "report: got an element for a value that is no list");
  list->push_back(std::move(value));
}

struct ReportJson {
  using Json = nlohmann::ordered_json;
  static Json of(const Report& report) { return std::visit(ReportJson(), report.value_); }

  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const Report::List& list) const {
    Json json = Json::array();
    for (const auto& value : list) json.push_back(of(value));
    return json;
  }
  Json operator()(const Report::Object& object) const {
    Json json = Json::object();
    for (const auto& [key, value] : object) json[key] = of(value);
    return json;
  }
  template <typename Scalar>
  Json operator()(const Scalar& value) const {
    return value;
  }
};

std::string Report::to_json() const {
  return ReportJson::of(*this).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string Report::to_json_line() const {
  return ReportJson::of(*this).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Report environment_report(const std::string& version, const std::vector<std::string>& command_line) {
  Report report;
  report["version"] = version;
  for (const auto& argument : command_line) report["command_line"].push_back(argument);
  report["cpu"] = cpu_model();
  report["isa"] = isa_name(best_isa());
  report["usable_cpus"] = num_usable_cpus();
  struct sysinfo memory {};
  if (::sysinfo(&memory) == 0) report["memory_bytes"] = uint64_t{memory.totalram} * memory.mem_unit;
  struct utsname system {};
  if (::uname(&system) == 0) {
    report["host"] = system.nodename;
    report["kernel"] = fmt::format("{} {}", system.sysname, system.release);
  }
  return report;
}

}  // namespace athanor::observe
