// The frame of every HTML report: one file that loads nothing, light or dark as the reader's system is.
//
//   const std::string page = page_start("mine", "finished", "2026-01-01") + figures({{"kept", "61 %"}}) + text + page_end();
//
// All texts are escaped. Thread rule: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::observe::html {

// Up to the headline with its status, which may be empty; `extra_style` is CSS of one kind of page.
std::string page_start(const std::string& title, const std::string& status, const std::string& time,
                       const std::string& extra_style = "");
std::string page_end();
// Large figures above all else: names and values.
std::string figures(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace athanor::observe::html
