#include "written_text.h"

#include <fmt/format.h>

#include "athanor/base/clock.h"
#include "athanor/base/human.h"
#include "athanor/evaluate/stop_text.h"
#include "athanor/text/decoders/stream_decoder.h"

namespace athanor::apps {

WrittenText write_text(Loaded& model, const WriteRequest& request,
                       const std::function<bool(const std::string& piece)>& show) {
  const int64_t context = model.loaded.config.model.max_position_embeddings;
  WrittenText written;
  GenerateOptions options = request.options;
  options.on_shift = [&](size_t done, size_t kept) {
    if (written.remark.empty())
      written.remark = fmt::format(
          "the context of {} tokens was full after {} new tokens: from there on the model read the "
          "newest {} to {} only",
          with_commas(context), with_commas(static_cast<int64_t>(done)),
          with_commas(static_cast<int64_t>(kept)), with_commas(context));
  };
  StopText stop(request.stops);
  StreamDecoder decoder(*model.tokenizer, request.before);
  const auto add = [&](const std::string& piece) {
    written.text += piece;
    return show(piece);
  };
  const double start = now_seconds();
  generate(*model.loaded.model, model.arena, request.ids, options, [&](int32_t id) {
    written.ids.push_back(id);
    return add(stop.add(decoder.add(id))) && !stop.found();
  });
  written.seconds = now_seconds() - start;
  add(stop.add(decoder.finish()));
  add(stop.finish());
  if (stop.found()) written.stop = *stop.found();
  return written;
}

}  // namespace athanor::apps
