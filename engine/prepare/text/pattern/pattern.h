// What splitters and Replace look for in a text: the reference's regular expressions, each as a hand-written scanner.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace tributary {

// Called by split/ and normalise/; made by read_pattern. Thread-safety: const after construction.
class Pattern {
 public:
  struct Match {
    size_t begin;
    size_t end;  // > begin: no pattern here matches nothing
  };

  virtual ~Pattern() = default;
  // The first match that begins at `from` (a character boundary) or later. Time linear in what it passes over.
  virtual std::optional<Match> Find(std::string_view text, size_t from) const = 0;
};

}  // namespace tributary
