// The hand-written scanners, each beside the regular expression it stands for.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/pattern/read_pattern.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

std::vector<std::string> Matches(const std::string& regex, const std::string& text) {
  const auto pattern = ReadPattern({{"Regex", regex}}, "test");
  std::vector<std::string> found;
  size_t position = 0;
  while (const auto match = pattern->Find(text, position)) {
    found.push_back(text.substr(match->begin, match->end - match->begin));
    position = match->end;
  }
  return found;
}

using Strings = std::vector<std::string>;

TEST_CASE("GPT-2's pattern keeps a space with the word behind it, and leaves the last of several to it") {
  const std::string regex = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  CHECK(Matches(regex, "I'm  42 x!'s") == Strings{"I", "'m", " ", " 42", " x", "!'", "s"});
  CHECK(Matches(regex, "a \n\n b  ") == Strings{"a", " \n\n", " b", "  "});
  CHECK(Matches(regex, "\u00a0a\u3000\u3000b") == Strings{"\u00a0", "a", "\u3000", "\u3000", "b"});
  CHECK(Matches(regex, "'S '") == Strings{"'", "S", " '"});
}

TEST_CASE("Qwen's pattern takes digits one by one, cl100k's three by three, and both any case and line breaks apart") {
  const std::string before = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
  const std::string behind = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  CHECK(Matches(before + behind, "1234") == Strings{"1", "2", "3", "4"});
  CHECK(Matches(before + "{1,3}" + behind, "12345 67") == Strings{"123", "45", " ", "67"});
  CHECK(Matches(before + behind, "It'S 'LL'\u017f$x") == Strings{"It", "'S", " '", "LL", "'\u017f", "$x"});
  CHECK(Matches(before + behind, "a!\r\n\n b \n  c\t\td") ==
        Strings{"a", "!\r\n\n", " b", " \n", " ", " c", "\t", "\td"});
}

TEST_CASE("CLIP's pattern leaves white space out") {
  const std::string regex = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
  CHECK(Matches(regex, " it's 12 <|endoftext|>") == Strings{"it", "'s", "1", "2", "<|", "endoftext", "|>"});
  CHECK(Matches(R"(<\|startoftext\|>|<\|endoftext\|>|)" + regex, "a<|endoftext|>!") ==
        Strings{"a", "<|endoftext|>", "!"});
}

TEST_CASE("A pattern is one literal, white space or bracket, once, once or more, or so many times or more") {
  CHECK(Matches(R"(\s+)", "a \u3000\tb ") == Strings{" \u3000\t", " "});
  CHECK(Matches(R"(\s)", "a  b") == Strings{" ", " "});
  CHECK(Matches(" {2,}", "a b  c   d") == Strings{"  ", "   "});
  CHECK(Matches(R"([!-#\]\\-])", "a!b\"c#d]e\\f-g") == Strings{"!", "\"", "#", "]", "\\", "-"});
  CHECK(Matches("``", "a```b") == Strings{"``"});
  CHECK(Matches(R"(\.)", "a.b") == Strings{"."});
}

TEST_CASE("Any other pattern is an error that quotes it") {
  for (const char* regex : {"a|b", "a*", "a?", "[^a]", "[]a]", "[a", "[a&&b]", "[[a]]", R"([\w])", R"(\d)", "a{2}",
                            "^a", "ab+", "\u00e9+", "", "("}) {
    INFO(regex);
    CHECK_THROWS_AS(ReadPattern({{"Regex", regex}}, "test"), LoadError);
  }
}

}  // namespace
}  // namespace tributary
