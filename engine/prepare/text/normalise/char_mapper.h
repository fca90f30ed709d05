// Normalisers that look at one character at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/prepare/text/normalise/normaliser.h"
#include "engine/prepare/text/unicode/code_point_table.h"

namespace tributary {

// Replaces each character by what a table says: nothing, or one to four others.
class CharMapper : public Normaliser {
 public:
  // The rules of one step.
  class Rules {
   public:
    void Set(char32_t code, std::span<const char32_t> parts);
    void Remove(char32_t code) { Set(code, {}); }

   private:
    friend class CharMapper;
    std::vector<uint32_t> all_ = std::vector<uint32_t>(kCodePointCount, kKeep);
    std::vector<char32_t> parts_;  // each: its length, then its code points
  };

  explicit CharMapper(Rules rules);
  void Apply(std::string& text) const override;

 private:
  static constexpr uint32_t kKeep = UINT32_MAX;

  CodePointTable<uint32_t> table_;  // where in parts_; kKeep: stays as it is
  std::vector<char32_t> parts_;
};

CharMapper::Rules LowercaseRules();
CharMapper::Rules StripAccentsRules();  // combining marks removed
CharMapper::Rules NmtRules();
// The steps of BertNormalizer; between the second and the third comes canonical decomposition.
CharMapper::Rules CleanTextRules();
CharMapper::Rules ChineseCharsRules();
CharMapper::Rules NonSpacingMarksRules();

}  // namespace tributary
