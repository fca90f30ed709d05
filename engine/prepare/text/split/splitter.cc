#include "engine/prepare/text/split/splitter.h"

namespace tributary {

// Takes the stretches of one piece, match or not, and puts the new pieces together. Source: NormalizedString::split in
// tokenizer/normalizer.rs of Hugging Face tokenizers.
class PatternSplitter::Collector {
 public:
  Collector(Behaviour behaviour, std::vector<Pieces::Range>& out) : behaviour_(behaviour), out_(out) {}

  void Add(size_t begin, size_t end, bool is_match) {
    switch (behaviour_) {
      case Behaviour::kIsolated:
        Push(begin, end);
        break;
      case Behaviour::kRemoved:
        if (!is_match) Push(begin, end);
        break;
      case Behaviour::kContiguous:
        if (is_match == was_match_ && has_any_) {
          out_.back().end = end;
        } else {
          Push(begin, end);
        }
        break;
      case Behaviour::kMergedWithPrevious:
        if (is_match && !was_match_ && has_any_) {
          out_.back().end = end;
        } else {
          Push(begin, end);
        }
        break;
      case Behaviour::kMergedWithNext:
        // A match waits in out_ for what comes; another match leaves it alone.
        if (!is_match && was_match_) {
          out_.back().end = end;
        } else {
          Push(begin, end);
        }
        break;
    }
    was_match_ = is_match;
  }

 private:
  void Push(size_t begin, size_t end) {
    out_.push_back({begin, end});
    has_any_ = true;
  }

  Behaviour behaviour_;
  std::vector<Pieces::Range>& out_;
  bool has_any_ = false;
  bool was_match_ = false;
};

void PatternSplitter::Split(Pieces& pieces) const {
  std::vector<Pieces::Range> out;
  out.reserve(pieces.text().size() / 4 + 4);
  for (const auto range : pieces.ranges()) {
    const auto text = pieces.Text(range);
    Collector collector(behaviour_, out);
    size_t position = 0;
    while (const auto match = pattern_->Find(text, position)) {
      if (match->begin > position) collector.Add(range.begin + position, range.begin + match->begin, invert_);
      collector.Add(range.begin + match->begin, range.begin + match->end, !invert_);
      position = match->end;
    }
    if (position < text.size()) collector.Add(range.begin + position, range.end, invert_);
  }
  pieces.Swap(out);
}

void Metaspace::Split(Pieces& pieces) const {
  std::vector<Pieces::Range> out;
  std::string text;
  text.reserve(pieces.text().size() + pieces.text().size() / 2 + 8);
  for (const auto range : pieces.ranges()) {
    const auto old = pieces.Text(range);
    const bool has_one = old[0] == ' ' || old.substr(0, replacement_.size()) == replacement_;
    const bool is_first = pieces.at_start() && range.begin == 0;
    size_t begin = text.size();  // of the new piece at hand
    if (!has_one && (prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && is_first))) text += replacement_;
    for (size_t i = 0; i < old.size();) {
      const bool is_space = old[i] == ' ';
      if (!is_space && (old[i] != replacement_[0] || old.substr(i, replacement_.size()) != replacement_)) {
        text += old[i++];
        continue;
      }
      if (split_ && text.size() > begin) {
        out.push_back({begin, text.size()});
        begin = text.size();
      }
      text += replacement_;
      i += is_space ? 1 : replacement_.size();
    }
    out.push_back({begin, text.size()});
  }
  pieces.Swap(out, text);
}

void PrefixSpace::Split(Pieces& pieces) const {
  std::vector<Pieces::Range> out;
  std::string text;
  text.reserve(pieces.text().size() + pieces.ranges().size());
  for (const auto range : pieces.ranges()) {
    const size_t begin = text.size();
    const auto old = pieces.Text(range);
    if (old[0] != ' ') text += ' ';
    text += old;
    out.push_back({begin, text.size()});
  }
  pieces.Swap(out, text);
}

}  // namespace tributary
