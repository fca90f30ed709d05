// What every reader of model folders starts from: files that are none, and JSON without bound.
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "engine/files/json_text.h"
#include "engine/files/mapped_file.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

using nlohmann::json;

std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("What is no regular file is refused at once, and not waited for") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo(folder.File("pipe").c_str(), 0600) == 0);
  std::filesystem::create_directory(folder.File("folder"));
  std::filesystem::create_symlink("loop", folder.File("loop"));
  for (const std::string& path : {folder.File("pipe"), folder.File("folder"), std::string("/dev/zero")}) {
    CAPTURE(path);
    CHECK(MappedFile::Open(path).status() == absl::InvalidArgumentError(path + " is not a regular file"));
    CHECK(ReadJsonFile(path).status() == absl::InvalidArgumentError(path + " is not a regular file"));
  }
  CHECK_FALSE(MappedFile::Open(folder.File("loop")).ok());
  CHECK(absl::IsNotFound(ReadJsonFile(folder.File("none")).status()));
}

TEST_CASE("JSON is read from a file, and what is none names it") {
  const TemporaryFolder folder;
  folder.Write("good.json", R"({"a":[1,"x"]})");
  const auto good = ReadJsonFile(folder.File("good.json"));
  REQUIRE(good.ok());
  CHECK(*good == json{{"a", {1, "x"}}});
  for (const char* bad : {"", "{", "{}x", "\xEF\xBB\xBF", "\xFF\xFE{\0}\0"}) {
    folder.Write("bad.json", bad);
    CHECK(ReadJsonFile(folder.File("bad.json")).status() ==
          absl::InvalidArgumentError(folder.File("bad.json") + " is not valid JSON"));
  }
}

TEST_CASE("JSON is as deep as it may be, and no deeper, whatever brackets its strings hold") {
  CHECK(ParseJson(Nested(kMaxJsonDepth), "x").ok());
  CHECK(ParseJson(Nested(kMaxJsonDepth + 1), "x").status() ==
        absl::InvalidArgumentError("x: JSON deeper than 64 levels"));
  CHECK_FALSE(ParseJson(std::string(1 << 20, '['), "x").ok());
  CHECK_FALSE(ParseJson(R"({"a":)" + Nested(300000) + "}", "x").ok());
  const std::string brackets(1000, '[');
  CHECK(ParseJson("[\"" + brackets + "\\\"" + brackets + "\\\\\",[]]", "x").ok());
  std::string many = "[[]";
  for (int i = 0; i < 1000; ++i) many += ",[]";
  CHECK(ParseJson(many + "]", "x").ok());
}

TEST_CASE("A message shows a value in full where it is short, and else its size") {
  CHECK(Shown(json(7)) == "7");
  CHECK(Shown(json("x")) == "\"x\"");
  CHECK(Shown(json{1, "a"}) == R"([1,"a"])");
  CHECK(Shown(json::array_t(1000, json(1))) == "a list of 1000");
  json object;
  for (int i = 0; i < 1000; ++i) object[std::to_string(i)] = i;
  CHECK(Shown(object) == "an object of 1000 keys");
  const std::string cut = Shown(json(std::string(98, 'x') + "\u00e4\u00e4\u00e4"));
  CHECK(cut == "\"" + std::string(98, 'x') + "...");  // not inside a character
  CHECK(Shown(json(std::string("\xFF"))) == "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace tributary
