// A conversation at the terminal: each line is a message, answered by the model with all that was said before.
//
//   converse(model, "runs/tutor", {.on = true, .system = "Be brief."}, {.options = options});
//
// /new forgets what was said, /exit or the end of the input ends it; Ctrl-C ends an answer, which then stays as far as it
// came. Where a conversation outgrows the model's context its oldest messages are left out, and that is said. Each answer
// has random numbers of its own: the same seed and the same messages give the same answers.
// Thread rule: one thread. Errors: those of make_chat_prompt() and generate().
#pragma once

#include <string>

#include "chat_prompt.h"
#include "written_text.h"

namespace athanor::apps {

// `how`: stops and options; its ids are not read.
void converse(Loaded& model, const std::string& path, const ChatInput& chat, const WriteRequest& how);

}  // namespace athanor::apps
