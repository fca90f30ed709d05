// Normalisers that look at the ends of the text, or for a pattern in it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/prepare/text/normalise/normaliser.h"
#include "engine/prepare/text/pattern/pattern.h"
#include "engine/prepare/text/unicode/char_classes.h"

namespace tributary {

// White space at the ends removed.
class Strip : public Normaliser {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void Apply(std::string& text) const override;

 private:
  bool left_;
  bool right_;
  CharClasses classes_;
};

// Something put before a text that is not empty.
class Prepend : public Normaliser {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void Apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

// Every match of a pattern replaced.
class Replace : public Normaliser {
 public:
  Replace(std::unique_ptr<Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void Apply(std::string& text) const override;

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

}  // namespace tributary
