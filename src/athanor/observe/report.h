// report.json and env.json: an ordered tree of values, written as JSON.
//
//   Report report;
//   report["ranks"] = 2;
//   report["valid_loss_last"]["en"] = 3.21;          // [] creates objects and keys
//   report["phases"].push_back("tokenize");
//   env.write_atomically("runs/first/report.json", report.to_json());
//
// Keys keep the order in which they were first named. NaN and infinity are written as null.
// Thread rule: plain data. Errors: Error for [] on a list or scalar, or push_back() on an object or scalar.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::observe {

// Of a run's folder: what a lone process or the launcher says of a run, and what rank 0 says to the launcher.
constexpr const char* kReportName = "report.json";
constexpr const char* kRunReportName = "report.run.json";

class Report {
 public:
  Report() = default;
  Report(bool value) : value_(value) {}
  Report(double value) : value_(value) {}
  Report(const char* value) : value_(std::string(value)) {}
  Report(std::string value) : value_(std::move(value)) {}
  template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer>>>
  Report(Integer value) : value_(static_cast<int64_t>(value)) {}

  static Report list();  // empty ones, which a value without elements is not
  static Report object();

  Report& operator[](std::string_view key);
  void push_back(Report value);
  std::string to_json() const;       // indented by two, with a line end
  std::string to_json_line() const;  // without any line end

 private:
  using Object = std::vector<std::pair<std::string, Report>>;
  using List = std::vector<Report>;
  friend struct ReportJson;
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Object> value_;
};

// For env.json: the program, its command line, and the machine it runs on.
Report environment_report(const std::string& version, const std::vector<std::string>& command_line);

}  // namespace athanor::observe
