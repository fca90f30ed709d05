// SentencePiece's compiled character map, which a tokenizer.json carries as it is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/prepare/text/normalise/graphemes.h"
#include "engine/prepare/text/normalise/normaliser.h"

namespace tributary {

// A double-array trie of byte strings and what each of them becomes. As in the reference, a grapheme cluster of fewer
// than six bytes that *begins* with an entry is replaced as a whole; longer ones go character by character. Invariants:
// whatever the map holds, no read leaves it and the result is UTF-8. Thread-safety: const after construction.
// Errors: INVALID_ARGUMENT a map that is cut off or whose replacements are not UTF-8.
// Source: spm_precompiled, src/lib.rs; Darts-clone's units.
class Precompiled : public Normaliser {
 public:
  static absl::StatusOr<Precompiled> Create(std::string_view charsmap);

  void Apply(std::string& text) const override;

 private:
  Precompiled(std::vector<uint32_t> units, std::string replacements);

  bool IsKept(char c) const {
    const auto byte = static_cast<uint8_t>(c);
    return byte < is_kept_.size() && is_kept_[byte];
  }
  std::optional<std::string_view> Find(std::string_view chunk) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends at a zero byte
  Graphemes graphemes_;
  std::array<bool, 128> is_kept_;  // ASCII that stays as it is, with ASCII behind it
};

}  // namespace tributary
