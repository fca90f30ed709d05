#include "engine/prepare/text/normalise/edge_steps.h"

#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {

void Strip::Apply(std::string& text) const {
  size_t end = text.size();
  while (right_ && end > 0) {
    const size_t last = utf8::StartOfLast(std::string_view(text).substr(0, end));
    size_t behind = last;
    if (!classes_.Is(utf8::Decode(text, behind), CharClasses::kSpace)) break;
    end = last;
  }
  text.resize(end);
  size_t begin = 0;
  for (size_t behind = 0; left_ && begin < text.size(); begin = behind) {
    if (!classes_.Is(utf8::Decode(text, behind), CharClasses::kSpace)) break;
  }
  text.erase(0, begin);
}

void Replace::Apply(std::string& text) const {
  auto match = pattern_->Find(text, 0);
  if (!match) return;
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  size_t position = 0;
  for (; match; match = pattern_->Find(text, position)) {
    out.append(text, position, match->begin - position);
    out += content_;
    position = match->end;
  }
  out.append(text, position);
  text.swap(out);
}

}  // namespace tributary
