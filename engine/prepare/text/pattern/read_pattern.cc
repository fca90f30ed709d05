#include "engine/prepare/text/pattern/read_pattern.h"

#include <bitset>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/pattern/simple_patterns.h"
#include "engine/prepare/text/pattern/word_patterns.h"

namespace tributary {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Short = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100k =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kClip = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
constexpr std::string_view kClipSpecial =
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

constexpr std::string_view kMeta = R"(\^$.|?*+()[]{})";

bool IsMeta(char c) { return kMeta.find(c) != std::string_view::npos; }
bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// The character an escape stands for: one of the signs, or a control character. Letters and digits mean more.
std::optional<char> Escaped(char c) {
  if (c == 'n') return '\n';
  if (c == 'r') return '\r';
  if (c == 't') return '\t';
  const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return !alphanumeric && IsAscii(c) ? std::optional(c) : std::nullopt;
}

// Reads the one atom and its quantifier. Nothing: the expression is more than that.
class RunReader {
 public:
  explicit RunReader(std::string_view regex) : rest_(regex) {}

  std::unique_ptr<Pattern> Read() {
    if (!ReadAtom() || !ReadQuantifier() || !rest_.empty()) return nullptr;
    return std::make_unique<CharRunPattern>(options_);
  }

 private:
  bool ReadAtom() {
    if (rest_.empty()) return false;
    if (rest_.substr(0, 2) == R"(\s)") {
      options_.classes = CharClasses::kSpace;
      rest_.remove_prefix(2);
      return true;
    }
    if (rest_[0] == '[') return ReadBracket();
    const auto c = ReadChar(IsMeta(rest_[0]));
    if (c) options_.ascii[static_cast<size_t>(*c)] = true;
    return c.has_value();
  }

  // `special`: the character at hand means something other than itself unless a backslash is before it.
  std::optional<char> ReadChar(bool special) {
    char c = rest_[0];
    if (c == '\\') {
      const auto escaped = rest_.size() > 1 ? Escaped(rest_[1]) : std::nullopt;
      if (escaped) rest_.remove_prefix(2);
      return escaped;
    }
    if (special || !IsAscii(c)) return std::nullopt;
    rest_.remove_prefix(1);
    return c;
  }

  bool ReadBracket() {
    rest_.remove_prefix(1);
    if (rest_.empty() || rest_[0] == '^' || rest_[0] == ']') return false;
    while (!rest_.empty() && rest_[0] != ']') {
      // Two of these in a row, and an unescaped [, are set operations of the reference's expressions.
      if (rest_[0] == '[' || rest_.substr(0, 2) == "&&") return false;
      const auto first = ReadChar(false);
      if (!first) return false;
      char last = *first;
      if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        rest_.remove_prefix(1);
        if (rest_[0] == '[') return false;
        const auto end = ReadChar(false);
        if (!end || *end < last) return false;
        last = *end;
      }
      for (size_t c = static_cast<uint8_t>(*first); c <= static_cast<uint8_t>(last); ++c) options_.ascii[c] = true;
    }
    if (rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool ReadQuantifier() {
    if (rest_.empty()) return true;
    options_.longest = true;
    if (rest_ == "+") {
      rest_.remove_prefix(1);
      return true;
    }
    // {n,}
    if (rest_.size() != 4 || rest_[0] != '{' || rest_[1] < '1' || rest_[1] > '9' || rest_.substr(2) != ",}")
      return false;
    options_.least = static_cast<size_t>(rest_[1] - '0');
    rest_.remove_prefix(4);
    return true;
  }

  std::string_view rest_;
  CharRunPattern::Options options_;
};

std::unique_ptr<Pattern> FromRegex(const std::string& regex) {
  if (regex == kGpt2 || regex == kGpt2Short) return std::make_unique<Gpt2Pattern>();
  if (regex == kQwen2) return std::make_unique<Cl100kPattern>(1);
  if (regex == kCl100k) return std::make_unique<Cl100kPattern>(3);
  if (regex == kClip || regex == kClipSpecial) return std::make_unique<ClipPattern>(regex == kClipSpecial);
  const bool plain = !regex.empty() && regex.find_first_of(kMeta) == std::string::npos;
  if (plain) return std::make_unique<LiteralPattern>(regex);
  return RunReader(regex).Read();
}

}  // namespace

std::unique_ptr<Pattern> ReadPattern(const nlohmann::json& pattern, const std::string& part) {
  if (pattern.is_object() && pattern.contains("String")) {
    auto literal = pattern["String"].get<std::string>();
    if (literal.empty()) throw LoadError{absl::StrCat(part, ": an empty pattern is not supported")};
    return std::make_unique<LiteralPattern>(std::move(literal));
  }
  const auto regex = pattern.at("Regex").get<std::string>();
  auto read = FromRegex(regex);
  if (read == nullptr) throw LoadError{absl::StrCat(part, ": the pattern '", regex, "' is not supported")};
  return read;
}

}  // namespace tributary
