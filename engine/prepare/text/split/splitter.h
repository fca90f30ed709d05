// One step of a tokeniser's pre-tokeniser: it cuts pieces into smaller ones.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/prepare/text/pattern/pattern.h"
#include "engine/prepare/text/split/pieces.h"

namespace tributary {

// Called by pipeline_tokenizer between normaliser and model. Thread-safety: const after construction.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // Time linear in the text.
  virtual void Split(Pieces& pieces) const = 0;
};

class SplitterSequence : public Splitter {
 public:
  explicit SplitterSequence(std::vector<std::unique_ptr<Splitter>> steps) : steps_(std::move(steps)) {}
  void Split(Pieces& pieces) const override {
    for (const auto& step : steps_) step->Split(pieces);
  }

 private:
  std::vector<std::unique_ptr<Splitter>> steps_;
};

// Cuts around the matches of a pattern.
class PatternSplitter : public Splitter {
 public:
  // What becomes of a match.
  enum class Behaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

  // `invert`: what the pattern does not match counts as the match.
  PatternSplitter(std::unique_ptr<Pattern> pattern, Behaviour behaviour, bool invert)
      : pattern_(std::move(pattern)), behaviour_(behaviour), invert_(invert) {}
  void Split(Pieces& pieces) const override;

 private:
  class Collector;

  std::unique_ptr<Pattern> pattern_;
  Behaviour behaviour_;
  bool invert_;
};

// Spaces become `replacement`, one more of which goes before a piece that has none there; every `replacement` begins a
// piece where `split` is on.
class Metaspace : public Splitter {
 public:
  enum class Prepend { kNever, kFirst, kAlways };

  Metaspace(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}
  void Split(Pieces& pieces) const override;

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

// A space before each piece that does not begin with one: ByteLevel's add_prefix_space.
class PrefixSpace : public Splitter {
 public:
  void Split(Pieces& pieces) const override;
};

}  // namespace tributary
