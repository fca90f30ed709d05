#include "engine/prepare/text/normalise/normal_form.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "engine/prepare/text/unicode/hangul.h"
#include "engine/prepare/text/unicode/unicode_tables.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

uint64_t Key(char32_t first, char32_t second) { return uint64_t{first} << 32 | second; }

bool IsSyllable(char32_t code) { return code >= hangul::kFirst && code < hangul::kFirst + hangul::kCount; }

}  // namespace

NormalForm::NormalForm(Options options) : options_(options), parts_(1), table_(Fill()) {}

std::vector<NormalForm::Entry> NormalForm::Fill() {
  std::vector<Entry> all(kCodePointCount);
  const auto decompose = [&](char32_t from, std::span<const char32_t> parts) {
    all[from].parts = static_cast<uint32_t>(parts_.size()) & 0x7FFFFF;
    all[from].stable = 0;
    parts_.push_back(static_cast<char32_t>(parts.size()));
    parts_.insert(parts_.end(), parts.begin(), parts.end());
  };
  const auto set_stable = [&](char32_t first, char32_t count, bool stable) {
    for (char32_t code = first; code < first + count; ++code) all[code].stable = stable ? 1 : 0;
  };
  for (const auto& mapping : unicode::Decompositions()) decompose(mapping.from, unicode::Parts(mapping));
  if (options_.compose) {
    // These come back from their parts unchanged.
    for (const auto& pair : unicode::Compositions()) {
      compositions_.emplace(Key(pair.first, pair.second), pair.composed);
      all[pair.composed].stable = 1;
    }
  }
  if (options_.compatibility) {
    const auto parts = unicode::CompatibilityParts();
    for (const auto& expansion : unicode::CompatibilityDecompositions()) {
      decompose(expansion.from, parts.subspan(expansion.first, expansion.count));
    }
  }
  for (const auto& mark : unicode::CombiningClasses()) {
    all[mark.code].combining_class = mark.value;
    all[mark.code].stable = 0;
  }
  if (options_.compose) {
    for (const auto& pair : unicode::Compositions()) all[pair.second].stable = 0;
    set_stable(hangul::kVowelFirst, hangul::kVowelCount, false);
    set_stable(hangul::kTrailFirst + 1, hangul::kTrailCount - 1, false);
  } else {
    set_stable(hangul::kFirst, hangul::kCount, false);
  }
  return all;
}

void NormalForm::AddDecomposed(char32_t code, Run& run) const {
  if (IsSyllable(code)) {
    const auto letters = hangul::Decompose(code);
    for (size_t i = 0; i < letters.count; ++i) run.emplace_back(0, letters.codes[i]);
    return;
  }
  const Entry entry = table_[code];
  if (entry.parts == 0) {
    run.emplace_back(static_cast<uint8_t>(entry.combining_class), code);
    return;
  }
  for (const char32_t part : std::span(&parts_[entry.parts] + 1, parts_[entry.parts])) {
    run.emplace_back(static_cast<uint8_t>(table_[part].combining_class), part);
  }
}

// Decomposition in canonical order.
void NormalForm::Decompose(std::string_view text, Run& run) const {
  run.clear();
  for (size_t position = 0; position < text.size();) AddDecomposed(utf8::Decode(text, position), run);
  const auto is_starter = [](const auto& one) { return one.first == 0; };
  for (auto first = run.begin(); first != run.end();) {
    first = std::find_if_not(first, run.end(), is_starter);
    const auto last = std::find_if(first, run.end(), is_starter);
    std::stable_sort(first, last, [](const auto& a, const auto& b) { return a.first < b.first; });
    first = last;
  }
}

char32_t NormalForm::Pair(char32_t first, char32_t second) const {
  if (const char32_t syllable = hangul::Compose(first, second); syllable != 0) return syllable;
  const auto found = compositions_.find(Key(first, second));
  return found == compositions_.end() ? 0 : found->second;
}

// Each character joins the last starter before it, unless one between them has its class or a higher one.
void NormalForm::Compose(Run& run) const {
  size_t starter = run.size();  // none yet
  size_t written = 0;
  int highest = -1;  // class of what stands between the starter and here; -1: nothing does
  for (size_t i = 0; i < run.size(); ++i) {
    const auto [combining_class, code] = run[i];  // a copy: run is written over on the way
    if (starter < written && highest < combining_class) {
      if (const char32_t composed = Pair(run[starter].second, code); composed != 0) {
        run[starter].second = composed;
        continue;
      }
    }
    if (combining_class == 0) {
      starter = written;
      highest = -1;
    } else {
      highest = combining_class;
    }
    run[written++] = {combining_class, code};
  }
  run.resize(written);
}

void NormalForm::Apply(std::string& text) const {
  std::string out;
  Run run;
  size_t copied = 0;  // of text into out
  size_t start = 0;   // of the last stable character
  for (size_t position = 0; position < text.size();) {
    size_t behind = position;
    // ASCII is stable: eight at a time.
    uint64_t eight = 0;
    if (position + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + position, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        position += sizeof(eight);
        start = position - 1;
        continue;
      }
    }
    if (table_[utf8::Decode(text, behind)].stable != 0) {
      start = position;
      position = behind;
      continue;
    }
    // To the next stable character.
    for (position = behind; position < text.size(); position = behind) {
      if (table_[utf8::Decode(text, behind)].stable != 0) break;
    }
    out.append(text, copied, start - copied);
    Decompose(std::string_view(text).substr(start, position - start), run);
    if (options_.compose) Compose(run);
    for (const auto& one : run) utf8::Append(one.second, out);
    copied = position;
    start = position;
  }
  if (copied == 0) return;
  out.append(text, copied);
  text.swap(out);
}

}  // namespace tributary
