// Text in a page or a picture: whatever a run says is shown, and never becomes markup.
//
//   page += "<td>" + escaped(event.cause) + "</td>";
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace athanor::observe::html {

// For elements and for attributes in double or single quotes. Control characters and bytes that are not UTF-8 become '?'.
std::string escaped(std::string_view text);

// Four significant digits: "0.0612", "40,060", "1.2 M"; "–" for what is not finite.
std::string short_number(double value);

}  // namespace athanor::observe::html
