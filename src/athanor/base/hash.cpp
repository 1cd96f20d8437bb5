#include "athanor/base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include "athanor/base/check.h"

namespace athanor::base {

uint64_t hash64(const void* data, size_t size_bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size_bytes, seed);
}

uint64_t hash64(std::string_view text, uint64_t seed) {
  return hash64(text.data(), text.size(), seed);
}

struct Hash128::State {
  XXH3_state_t* xxh = XXH3_createState();
};

Hash128::Hash128() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh);
}
Hash128::~Hash128() {
  XXH3_freeState(state_->xxh);
}
void Hash128::update(const void* data, size_t size_bytes) {
  XXH3_128bits_update(state_->xxh, data, size_bytes);
}
std::string Hash128::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1, "sha256: OpenSSL refuses it");
}
Sha256::~Sha256() {
  EVP_MD_CTX_free(state_->context);
}
void Sha256::update(const void* data, size_t size_bytes) {
  EVP_DigestUpdate(state_->context, data, size_bytes);
}
std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(state_->context, digest, &length);
  std::string text;
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

namespace {
constexpr std::array<uint32_t, 256> make_crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) ? (value >> 1) ^ 0x82f63b78u : value >> 1;
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrc32cTable = make_crc32c_table();
}  // namespace

uint32_t crc32c(const void* data, size_t size_bytes, uint32_t crc) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (size_t i = 0; i < size_bytes; ++i) crc = kCrc32cTable[(crc ^ bytes[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace athanor::base
