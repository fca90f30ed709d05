// The generated lines of tests/golden/generate_tokenizer.py, made again: change both together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/prepare/preparer.h"

namespace tributary::golden {

std::string FuzzLine(uint64_t seed);
std::string FamilyLine(uint64_t seed);
std::string MixedLine(const std::vector<std::string>& corpus, uint64_t seed);
// Every code point below `end` between two letters, 20 to a line.
std::vector<std::string> CodePointLines(char32_t end);
std::vector<std::string> ReadCorpus();

// The hashes in a file of tests/golden/tokenizer.
std::vector<uint32_t> ReadHashes(const std::string& name);
// Lines whose ids have another hash; the first few are told. Catch's assertions are slow: count here, assert once.
size_t CountDifferences(const TextPreparer& preparer, const std::vector<std::string>& lines, const uint32_t* hashes);

// FNV-1a over the ids' little-endian bytes, folded to 32 bits.
uint32_t IdsHash(const std::vector<int32_t>& ids);

}  // namespace tributary::golden
