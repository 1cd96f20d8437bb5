#include "athanor/corpus/dedup/sha1.h"

#include <openssl/evp.h>

#include "athanor/base/check.h"

namespace athanor::corpus::dedup {

struct Sha1::State {
  // Looked up once: OpenSSL would search its providers at every use of EVP_sha1().
  EVP_MD* digest = EVP_MD_fetch(nullptr, "SHA1", nullptr);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha1::Sha1() : state_(std::make_unique<State>()) {
  base::check(state_->digest != nullptr && state_->context != nullptr, "sha1: OpenSSL refuses it");
}

Sha1::~Sha1() {
  EVP_MD_CTX_free(state_->context);
  EVP_MD_free(state_->digest);
}

uint64_t Sha1::first_eight_bytes(std::string_view text) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  const bool done = EVP_DigestInit_ex2(state_->context, state_->digest, nullptr) == 1 &&
                    EVP_DigestUpdate(state_->context, text.data(), text.size()) == 1 &&
                    EVP_DigestFinal_ex(state_->context, bytes, nullptr) == 1;
  base::check(done, "sha1: OpenSSL fails");
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

}  // namespace athanor::corpus::dedup
