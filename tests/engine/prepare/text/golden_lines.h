// The generated lines of tests/golden/generate_tokenizer.py, made again: change both together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tributary::golden {

std::string FuzzLine(uint64_t seed);
std::string MixedLine(const std::vector<std::string>& corpus, uint64_t seed);
// Every code point below `end` between two letters, 20 to a line.
std::vector<std::string> CodePointLines(char32_t end);
std::vector<std::string> ReadCorpus();

// FNV-1a over the ids' little-endian bytes, folded to 32 bits.
uint32_t IdsHash(const std::vector<int32_t>& ids);

}  // namespace tributary::golden
