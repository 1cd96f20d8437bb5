// Times training steps of llm.c's CPU trainer on random weights and tokens: a peer for bench/compare.sh, which
// compiles it beside a checkout of karpathy/llm.c with the flags of its Makefile:
//
//   cc -Ofast -march=native -fopenmp -I LLMC bench/llmc_step.c -lm -o llmc_step
//   OMP_NUM_THREADS=2 ./llmc_step 5 random_weights.bin
//
// GPT-2 124M, 4 sequences of 64 tokens, forward, backward and AdamW, as its main() does. The weights' file is
// written where there is none. Prints the milliseconds of each step but the first, one a line.
#define TESTING
#include "train_gpt2.c"

static uint64_t state = 88172645463325252ull;

static uint32_t random_word(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32);
}

static void write_weights(const char* path) {
  int header[256] = {20240326, 3, 1024, 50257, 12, 12, 768, 50304};
  GPT2Config config = {.max_seq_len = 1024,
                       .vocab_size = 50257,
                       .padded_vocab_size = 50304,
                       .num_layers = 12,
                       .num_heads = 12,
                       .channels = 768};
  size_t sizes[NUM_PARAMETER_TENSORS];
  fill_in_parameter_sizes(sizes, config);
  FILE* file = fopenCheck(path, "wb");
  fwrite(header, sizeof(int), 256, file);
  for (int tensor = 0; tensor < NUM_PARAMETER_TENSORS; ++tensor) {
    const int scale = tensor == 2 || tensor == 8 || tensor == 14;  // of the layer norms
    for (size_t i = 0; i < sizes[tensor]; ++i) {
      const float value = scale ? 1.0f : 0.07f * ((float)random_word() * 0x1p-32f - 0.5f);
      fwrite(&value, sizeof(float), 1, file);
    }
  }
  fclose(file);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: llmc_step STEPS WEIGHTS\n");
    return 2;
  }
  if (access(argv[2], F_OK) != 0) write_weights(argv[2]);
  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[2]);
  enum { B = 4, T = 64 };
  int inputs[B * T], targets[B * T];
  for (int step = 0; step <= atoi(argv[1]); ++step) {
    for (int i = 0; i < B * T; ++i) {
      inputs[i] = (int)(random_word() % 50257);
      targets[i] = (int)(random_word() % 50257);
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    gpt2_forward(&model, inputs, targets, B, T);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.0f, step + 1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double ms = (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) * 1e-6;
    if (step > 0) printf("step_ms %.3f loss %.4f\n", ms, model.mean_loss);
  }
  gpt2_free(&model);
  return 0;
}
