// The C++ end of compare_tokenizer.py. Standard input: texts, each a little-endian uint32 length and its bytes.
// Standard output: for each text a uint32 count and its int32 ids; count 0: not valid UTF-8.
#include <cstdint>
#include <cstdio>
#include <string>

#include "engine/prepare/text/text_preparer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: tributary-tokenizer-dump HUB_FOLDER MAX_TOKENS < texts > ids\n");
    return 2;
  }
  const auto preparer = tributary::LoadTextPreparer(argv[1], std::stoul(argv[2]));
  if (!preparer.ok()) {
    std::fprintf(stderr, "%s\n", preparer.status().ToString().c_str());
    return 1;
  }
  uint32_t size;
  std::string text;
  while (std::fread(&size, sizeof(size), 1, stdin) == 1) {
    text.resize(size);
    if (std::fread(text.data(), 1, size, stdin) != size) return 1;
    const auto tokens = (*preparer)->Prepare({.text = text, .token_ids = {}}, tributary::Truncation::kEnd);
    const uint32_t count = tokens.ok() ? static_cast<uint32_t>(tokens->ids.size()) : 0;
    std::fwrite(&count, sizeof(count), 1, stdout);
    if (count > 0) std::fwrite(tokens->ids.data(), sizeof(int32_t), count, stdout);
  }
  return 0;
}
