// The Unicode normal forms NFD, NFC, NFKD and NFKC, with the reference's tables.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/prepare/text/normalise/normaliser.h"
#include "engine/prepare/text/unicode/code_point_table.h"

namespace tributary {

// Most text is in normal form already, and is only looked at: work begins where a character is not stable, and goes
// from the stable one before it to the stable one behind it. Thread-safety: const after construction. Source: Unicode
// Standard Annex 15; the quick check there.
class NormalForm : public Normaliser {
 public:
  struct Options {
    bool compatibility = false;  // the K
    bool compose = false;        // C, not D
  };
  explicit NormalForm(Options options);

  void Apply(std::string& text) const override;

 private:
  struct Entry {
    uint32_t parts : 23 = 0;  // where in parts_ its decomposition is; 0: none
    uint32_t stable : 1 = 1;  // never changes, nor joins what is before it
    uint32_t combining_class : 8 = 0;
  };
  using Run = std::vector<std::pair<uint8_t, char32_t>>;  // combining class, code point

  std::vector<Entry> Fill();
  void Decompose(std::string_view text, Run& run) const;
  void AddDecomposed(char32_t code, Run& run) const;
  void Compose(Run& run) const;
  char32_t Pair(char32_t first, char32_t second) const;

  Options options_;
  std::vector<char32_t> parts_;                           // each: its length, then its code points
  absl::flat_hash_map<uint64_t, char32_t> compositions_;  // of (first << 32 | second)
  CodePointTable<Entry> table_;                           // last: filling it fills the two above
};

}  // namespace tributary
