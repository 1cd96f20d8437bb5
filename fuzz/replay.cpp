// Runs a fuzz target without libFuzzer, as an ordinary test of any build: NAME_replay CORPUS_FOLDER MUTANTS
//
// Every file of the corpus, then MUTANTS inputs made from them by a fixed sequence of bit flips, edge values,
// cuts, repetitions and splices. The same inputs on every machine; a crash or a sanitizer's report fails the
// test. The real search is libFuzzer's (fuzz/run.sh): what it finds goes into the corpus and from then on is
// replayed here.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Random = std::mt19937_64;  // its sequence is fixed by the standard, distributions' are not

size_t below(Random& random, size_t bound) {
  return static_cast<size_t>(random() % bound);
}

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// A little-endian number that counts and offsets in files are often wrong by.
std::string edge_number(Random& random) {
  static constexpr uint64_t edges[] = {0,
                                       1,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0x7fff,
                                       0xffff,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xffffffffffffffff};
  const uint64_t number = edges[below(random, std::size(edges))];
  std::string bytes(size_t{1} << below(random, 4), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string mutate(std::string input, const std::vector<std::string>& corpus, Random& random) {
  const size_t changes = 1 + below(random, 4);
  for (size_t change = 0; change < changes; ++change) {
    const size_t at = below(random, input.size() + 1);
    const size_t length = std::min(1 + below(random, 16), input.size() - at);
    switch (below(random, 6)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(random, 8)));
        break;
      case 1: {
        const std::string number = edge_number(random);
        input.replace(at, std::min(number.size(), input.size() - at), number);
        break;
      }
      case 2:
        input.resize(at);
        break;
      case 3:
        input.erase(at, length);
        break;
      case 4:
        input.insert(at, input.substr(at, length));
        break;
      case 5: {
        const std::string& other = corpus[below(random, corpus.size())];
        input = input.substr(0, at) + other.substr(below(random, other.size() + 1));
        break;
      }
    }
    if (input.size() > 1 << 16) input.resize(1 << 16);
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER MUTANTS\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(argv[1]))
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus = {""};
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.size() == 1) {
    std::fprintf(stderr, "%s: got no files, expected a corpus\n", argv[1]);
    return 1;
  }
  for (const auto& input : corpus) run(input);
  Random random(20240229);
  const long mutants = std::strtol(argv[2], nullptr, 10);
  for (long i = 0; i < mutants; ++i) run(mutate(corpus[below(random, corpus.size())], corpus, random));
  std::printf("%zu files of %s and %ld mutants\n", corpus.size() - 1, argv[1], mutants);
  return 0;
}
