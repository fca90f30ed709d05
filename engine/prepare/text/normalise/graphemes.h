// Where what a reader sees as one character ends: SentencePiece's character maps look at these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/prepare/text/unicode/code_point_table.h"

namespace tributary {

// Extended grapheme clusters. Pairs of regional indicators are not joined: Precompiled, the only caller, cannot tell.
// Thread-safety: const after construction. Source: Unicode Standard Annex 29, section 3.1.1.
class Graphemes {
 public:
  Graphemes();

  // The end of the cluster that begins at `from`, which is a boundary before the end of `text`.
  size_t End(std::string_view text, size_t from) const;

 private:
  CodePointTable<uint16_t> flags_;
};

}  // namespace tributary
