// Hangul syllables follow from their letters by arithmetic. Source: Unicode 15, section 3.12.
#pragma once

#include <cstddef>

namespace tributary::hangul {

inline constexpr char32_t kFirst = 0xAC00;
inline constexpr char32_t kCount = 11172;
inline constexpr char32_t kLeadFirst = 0x1100;
inline constexpr char32_t kVowelFirst = 0x1161;
inline constexpr char32_t kTrailFirst = 0x11A7;  // one before the first: 0 means no trailing consonant
inline constexpr char32_t kLeadCount = 19;
inline constexpr char32_t kVowelCount = 21;
inline constexpr char32_t kTrailCount = 28;

struct Letters {
  char32_t codes[3];
  size_t count;
};

inline Letters Decompose(char32_t syllable) {
  const char32_t index = syllable - kFirst;
  const char32_t trail = index % kTrailCount;
  return {{kLeadFirst + index / (kVowelCount * kTrailCount), kVowelFirst + index / kTrailCount % kVowelCount,
           kTrailFirst + trail},
          trail == 0 ? size_t{2} : size_t{3}};
}

// 0: the two make no syllable.
inline char32_t Compose(char32_t first, char32_t second) {
  if (first >= kLeadFirst && first < kLeadFirst + kLeadCount && second >= kVowelFirst &&
      second < kVowelFirst + kVowelCount) {
    return kFirst + ((first - kLeadFirst) * kVowelCount + (second - kVowelFirst)) * kTrailCount;
  }
  if (first >= kFirst && first < kFirst + kCount && (first - kFirst) % kTrailCount == 0 && second > kTrailFirst &&
      second < kTrailFirst + kTrailCount) {
    return first + (second - kTrailFirst);
  }
  return 0;
}

}  // namespace tributary::hangul
