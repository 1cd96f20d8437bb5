#include "athanor/documents/zstd_output.h"

#include <zstd.h>

#include <utility>
#include <vector>

#include "athanor/base/check.h"

namespace athanor::documents {

struct ZstdOutput::State {
  struct Free {
    void operator()(ZSTD_CCtx* freed) const { ZSTD_freeCCtx(freed); }
  };

  Env& env;
  std::string path, staged;
  std::unique_ptr<ZSTD_CCtx, Free> context = {};
  std::unique_ptr<WritableFile> file = {};
  std::vector<char> chunk = {};
  uint64_t size_bytes = 0;

  void compress(std::string_view bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (bool done = false; !done;) {
      ZSTD_outBuffer out{chunk.data(), chunk.size(), 0};
      const size_t left = ZSTD_compressStream2(context.get(), &out, &in, directive);
      check(ZSTD_isError(left) == 0, "'{}': zstd: {}", path, ZSTD_getErrorName(left));
      if (out.pos > 0) file->append(chunk.data(), out.pos);
      size_bytes += out.pos;
      done = directive == ZSTD_e_end ? left == 0 : in.pos == in.size;
    }
  }
};

ZstdOutput::ZstdOutput(Env& env, std::string path, int level)
    : state_(std::make_unique<State>(State{.env = env, .path = path, .staged = path + ".partial"})) {
  State& state = *state_;
  state.context.reset(ZSTD_createCCtx());
  check(state.context != nullptr, "'{}': no memory for zstd", path);
  ZSTD_CCtx_setParameter(state.context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(state.context.get(), ZSTD_c_checksumFlag, 1);
  state.chunk.resize(ZSTD_CStreamOutSize());
  state.file = env.create(state.staged);
}

ZstdOutput::~ZstdOutput() {
  if (state_->file == nullptr) return;
  try {
    state_->file.reset();
    state_->env.remove_all(state_->staged);
  } catch (const Failure&) {  // what is left has a name that nobody reads
  }
}

void ZstdOutput::append(std::string_view bytes) {
  state_->compress(bytes, ZSTD_e_continue);
}

uint64_t ZstdOutput::finish() {
  State& state = *state_;
  state.compress({}, ZSTD_e_end);
  state.file->sync();
  state.file->close();
  state.env.rename(state.staged, state.path);
  state.env.sync_folder(parent_folder(state.path));
  state.file.reset();
  return state.size_bytes;
}

}  // namespace athanor::documents
