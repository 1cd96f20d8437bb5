// A text that a model writes behind a prompt, shown piece by piece: what `generate` prints once, and a conversation for
// each message.
//
//   const WrittenText written = write_text(model, {.ids = ids, .before = ids, .stops = {"####"}, .options = options},
//                                          [](const std::string& piece) { print(piece); return true; });
//
// Thread rule: one thread per model. Errors: those of generate().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../loaded.h"
#include "athanor/evaluate/generate.h"

namespace athanor::apps {

struct WriteRequest {
  std::vector<int32_t> ids = {};        // what the model reads
  std::vector<int32_t> before = {};     // what stands before the text, for a decoder to which that matters
  std::vector<std::string> stops = {};  // the text ends before any of these
  GenerateOptions options = {};
};

struct WrittenText {
  std::string text;
  std::vector<int32_t> ids;         // new ones, a stop's included
  std::optional<std::string> stop;  // that ended it
  std::string remark;               // "": the context was never full
  double seconds = 0.0;
};

// `show` returns false to end the text there; it is called for each token, with "" where that is not a text yet.
WrittenText write_text(Loaded& model, const WriteRequest& request,
                       const std::function<bool(const std::string& piece)>& show);

}  // namespace athanor::apps
