// The text of one segment and where its words are: what splitters cut, and models read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tributary {

// Lives on the stack of one call; reused from segment to segment. Invariant: ranges ascend, and are not empty.
class Pieces {
 public:
  struct Range {
    size_t begin;
    size_t end;
  };

  // One piece, `text`, which outlives its use here. `at_start`: nothing of the input is before it.
  void Start(std::string_view text, bool at_start) {
    text_ = text;
    at_start_ = at_start;
    ranges_.clear();
    if (!text.empty()) ranges_.push_back({0, text.size()});
  }

  std::string_view text() const { return text_; }
  bool at_start() const { return at_start_; }
  const std::vector<Range>& ranges() const { return ranges_; }
  std::string_view Text(Range range) const { return text_.substr(range.begin, range.end - range.begin); }

  // New ranges over the same text. `ranges` gets the old ones, to use again.
  void Swap(std::vector<Range>& ranges) { ranges_.swap(ranges); }
  // New ranges over a new text, which is taken.
  void Swap(std::vector<Range>& ranges, std::string& text) {
    ranges_.swap(ranges);
    rewritten_.swap(text);
    text_ = rewritten_;
  }

 private:
  std::string_view text_;
  std::string rewritten_;
  bool at_start_ = false;
  std::vector<Range> ranges_;
};

}  // namespace tributary
