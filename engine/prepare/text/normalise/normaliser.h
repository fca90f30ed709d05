// One step of a tokeniser's normaliser: text in, text out.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tributary {

// Called by pipeline_tokenizer for each stretch of text between added tokens. Thread-safety: const after construction.
class Normaliser {
 public:
  virtual ~Normaliser() = default;
  // `text` is well-formed UTF-8 before and after. Time linear in it, but for sorting runs of combining marks.
  virtual void Apply(std::string& text) const = 0;
};

class NormaliserSequence : public Normaliser {
 public:
  explicit NormaliserSequence(std::vector<std::unique_ptr<Normaliser>> steps) : steps_(std::move(steps)) {}
  void Apply(std::string& text) const override {
    for (const auto& step : steps_) step->Apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normaliser>> steps_;
};

}  // namespace tributary
