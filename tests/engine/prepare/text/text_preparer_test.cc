// Limits, truncation, ready ids and bad folders, over a vocabulary small enough to read.
#include "engine/prepare/text/text_preparer.h"

#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

using nlohmann::json;

// Ids: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, a 4, b 5, ##b 6, ab 7, ##bc 8.
json SmallTokenizer() {
  return {{"added_tokens", {{{"id", 3}, {"content", "[SEP]"}, {"normalized", false}, {"special", true}}}},
          {"truncation", {{"max_length", 4}}},
          {"padding", {{"strategy", {{"Fixed", 4}}}}},
          {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", nullptr}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", {{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}, {"sep", {"[SEP]", 3}}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 8},
            {"vocab",
             {{"[PAD]", 0},
              {"[UNK]", 1},
              {"[CLS]", 2},
              {"[SEP]", 3},
              {"a", 4},
              {"b", 5},
              {"##b", 6},
              {"ab", 7},
              {"##bc", 8}}}}}};
}

absl::StatusOr<std::unique_ptr<TokenizingPreparer>> Load(const json& tokenizer, size_t max_tokens = 0) {
  const TemporaryFolder folder;
  folder.Write("tokenizer.json", tokenizer.dump());
  folder.Write("sentence_bert_config.json", R"({"max_seq_length": 6})");
  return LoadTextPreparer(folder.path(), max_tokens);
}

std::unique_ptr<TokenizingPreparer> Small() {
  auto preparer = Load(SmallTokenizer());
  REQUIRE(preparer.ok());
  return *std::move(preparer);
}

absl::StatusOr<TokenSequence> Prepare(const TextPreparer& preparer, std::string_view text,
                                      Truncation truncation = Truncation::kEnd) {
  return preparer.Prepare({.text = text, .token_ids = {}}, truncation);
}

bool Contains(const absl::Status& status, const std::string& what) {
  INFO(status.ToString());
  return std::string(status.message()).find(what) != std::string::npos;
}

TEST_CASE("Words are cut into the longest pieces; a word with a part that is no piece is unknown as a whole") {
  const auto preparer = Small();
  CHECK(Prepare(*preparer, "AB abbc")->ids == std::vector<int32_t>{2, 7, 7, 8, 3});
  CHECK(Prepare(*preparer, "abx a")->ids == std::vector<int32_t>{2, 1, 4, 3});
  CHECK(Prepare(*preparer, "bbbbbbbb")->truncated);
  CHECK(Prepare(*preparer, "bbbbbbbbb")->ids == std::vector<int32_t>{2, 1, 3});
}

TEST_CASE("The limit is max_seq_length, not the truncation and padding of tokenizer.json") {
  const auto preparer = Small();
  CHECK(preparer->max_tokens() == 6);
  CHECK(Prepare(*preparer, "a")->ids.size() == 3);
  const auto full = Prepare(*preparer, "a b a b");
  CHECK(full->ids == std::vector<int32_t>{2, 4, 5, 4, 5, 3});
  CHECK_FALSE(full->truncated);
}

TEST_CASE("A longer text is cut at its end or its start, or refused with its length and the limit") {
  const auto preparer = Small();
  const auto end = Prepare(*preparer, "a b a b b", Truncation::kEnd);
  CHECK(end->ids == std::vector<int32_t>{2, 4, 5, 4, 5, 3});
  CHECK(end->truncated);
  const auto start = Prepare(*preparer, "a b a b b", Truncation::kStart);
  CHECK(start->ids == std::vector<int32_t>{2, 5, 4, 5, 5, 3});
  CHECK(start->truncated);
  const auto none = Prepare(*preparer, "a b a b b", Truncation::kNone);
  CHECK(absl::IsInvalidArgument(none.status()));
  CHECK(Contains(none.status(), "7 tokens, the limit is 6"));
}

TEST_CASE("max_tokens lowers the folder's limit, never raises it, and must leave room for text") {
  CHECK((*Load(SmallTokenizer(), 4))->max_tokens() == 4);
  CHECK((*Load(SmallTokenizer(), 400))->max_tokens() == 6);
  CHECK(absl::IsInvalidArgument(Load(SmallTokenizer(), 2).status()));
}

TEST_CASE("Ready ids pass as they are; none, too many or one outside the vocabulary is refused with its place") {
  const auto preparer = Small();
  REQUIRE(preparer->vocabulary_size() == 9);
  const auto prepare = [&](const std::vector<int32_t>& ids) {
    return preparer->Prepare({.text = {}, .token_ids = ids}, Truncation::kEnd);
  };
  CHECK(prepare({8, 0, 4})->ids == std::vector<int32_t>{8, 0, 4});
  CHECK(absl::IsInvalidArgument(prepare({}).status()));
  CHECK(Contains(prepare({4, 9}).status(), "token_ids[1] is 9, must be in [0, 9)"));
  CHECK(Contains(prepare({-1}).status(), "token_ids[0] is -1"));
  CHECK(Contains(prepare({4, 4, 4, 4, 4, 4, 4}).status(), "7 ids, the limit is 6"));
}

TEST_CASE("Text that is not UTF-8 is refused with the offset of the first bad byte") {
  const auto preparer = Small();
  for (const char* bad :
       {"abcdefgh\x80", "abcdefgh\xC0\xAF", "abcdefgh\xC3", "abcdefgh\xE0\x80\x80", "abcdefgh\xED\xA0\x80",
        "abcdefgh\xF0\x8F\xBF\xBF", "abcdefgh\xF4\x90\x80\x80", "abcdefgh\xFF", "abcdefgh\xE4\xB8"}) {
    const auto tokens = Prepare(*preparer, bad);
    CHECK(absl::IsInvalidArgument(tokens.status()));
    CHECK(Contains(tokens.status(), "at byte 8"));
  }
  CHECK(Prepare(*preparer, "\xF4\x8F\xBF\xBF\xEE\x80\x80\xED\x9F\xBF").ok());
}

TEST_CASE("Special tokens in the text are themselves, whatever surrounds them") {
  const auto preparer = Small();
  CHECK(Prepare(*preparer, "a[SEP]b")->ids == std::vector<int32_t>{2, 4, 3, 5, 3});
  CHECK(Prepare(*preparer, "[sep]")->ids == std::vector<int32_t>{2, 1, 1, 1, 3});
}

TEST_CASE("A part that is not supported is a load error that names it") {
  const auto refuses = [](const char* part, const json& value, const std::string& what) {
    json tokenizer = SmallTokenizer();
    tokenizer[json::json_pointer(part)] = value;
    const auto preparer = Load(tokenizer);
    CHECK(absl::IsFailedPrecondition(preparer.status()));
    CHECK(Contains(preparer.status(), what));
  };
  refuses("/normalizer/type", "ByteLevel", "normalizer 'ByteLevel'");
  refuses("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a|b"}}}, {"content", ""}}, "pattern 'a|b'");
  refuses("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Custom"}}}}}, "normalizer 'Custom'");
  refuses("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}},
          "precompiled_charsmap is cut off");
  refuses("/pre_tokenizer/type", "UnicodeScripts", "pre_tokenizer 'UnicodeScripts'");
  refuses("/pre_tokenizer",
          {{"type", "Split"}, {"pattern", {{"Regex", "\\d+"}}}, {"behavior", "Isolated"}, {"invert", false}},
          "pre_tokenizer 'Split': the pattern '\\d+'");
  refuses("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}},
          "prepend_scheme first behind a normalizer");
  refuses("/pre_tokenizer", {{"type", "ByteLevel"}}, "model 'WordPiece' behind 'ByteLevel'");
  refuses("/model/type", "WordLevel", "model 'WordLevel'");
  refuses("/post_processor/type", "Custom", "post_processor 'Custom'");
  refuses("/added_tokens/0/id", 4, "added token '[SEP]' has id 4, its place in the vocabulary is 3");
  refuses("/model/unk_token", "<unk>", "'<unk>' is not in the vocabulary");
  refuses("/model/vocab", 5, "broken");
  refuses("/model/vocab/a", -4, "negative");
  refuses("/model", nullptr, "model 'null'");
}

TEST_CASE(
    "A model whose merges, unknown piece or byte pieces are not in its vocabulary is a load error that names them") {
  const auto refuses = [](const json& model, const std::string& what) {
    json tokenizer = SmallTokenizer();
    tokenizer.erase("added_tokens");
    tokenizer["pre_tokenizer"] = nullptr;
    tokenizer["model"] = model;
    const auto preparer = Load(tokenizer);
    CHECK(absl::IsFailedPrecondition(preparer.status()));
    CHECK(Contains(preparer.status(), what));
  };
  const json vocab = {{"a", 0}, {"b", 1}, {"ab", 2}};
  refuses({{"type", "BPE"}, {"vocab", vocab}, {"merges", {"b a"}}}, "merge 0 ('b' and 'a')");
  refuses({{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b c"}}}, "merge 'a b c'");
  refuses({{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b"}}, {"unk_token", "<unk>"}},
          "'<unk>' is not in the vocabulary");
  refuses({{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b"}}, {"byte_fallback", true}}, "no piece '<0x00>'");
  refuses({{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b"}}, {"dropout", 0.1}}, "dropout");
  refuses({{"type", "Unigram"}, {"vocab", json::parse(R"([["a", -1.0]])")}}, "unk_id");
  refuses({{"type", "Unigram"}, {"vocab", json::parse(R"([["a", -1.0]])")}, {"unk_id", 1}}, "unk_id");
}

TEST_CASE("Positions of a RoBERTa begin behind its padding id, and a text tower has its own configuration") {
  const TemporaryFolder folder;
  folder.Write("tokenizer.json", SmallTokenizer().dump());
  folder.Write("config.json", R"({"model_type": "xlm-roberta", "max_position_embeddings": 12, "pad_token_id": 1})");
  CHECK((*LoadTextPreparer(folder.path(), 0))->max_tokens() == 10);
  folder.Write("config.json", R"({"text_config": {"max_position_embeddings": 7, "vocab_size": 20}})");
  CHECK((*LoadTextPreparer(folder.path(), 0))->max_tokens() == 7);
  CHECK((*LoadTextPreparer(folder.path(), 0))->vocabulary_size() == 20);
}

TEST_CASE("An added token without a row in the embedding table loads, and is refused where a text has it") {
  json tokenizer = SmallTokenizer();
  tokenizer["added_tokens"].push_back({{"id", 9}, {"content", "<image>"}, {"normalized", false}});
  const TemporaryFolder folder;
  folder.Write("tokenizer.json", tokenizer.dump());
  folder.Write("config.json", R"({"max_position_embeddings": 12, "vocab_size": 9})");
  const auto preparer = LoadTextPreparer(folder.path(), 0);
  REQUIRE(preparer.ok());
  CHECK(Prepare(**preparer, "a b")->ids == std::vector<int32_t>{2, 4, 5, 3});
  const auto image = Prepare(**preparer, "a<image>");
  CHECK(absl::IsInvalidArgument(image.status()));
  CHECK(Contains(image.status(), "(id 9)"));
}

TEST_CASE("An added token listed twice is one token; with two ids it is a load error") {
  json tokenizer = SmallTokenizer();
  tokenizer["added_tokens"].push_back(tokenizer["added_tokens"][0]);
  const auto preparer = Load(tokenizer);
  REQUIRE(preparer.ok());
  CHECK(Prepare(**preparer, "a[SEP]b")->ids == std::vector<int32_t>{2, 4, 3, 5, 3});
  tokenizer["added_tokens"][1]["id"] = 4;
  CHECK(absl::IsFailedPrecondition(Load(tokenizer).status()));
  CHECK(Contains(Load(tokenizer).status(), "added token '[SEP]' has two ids, 3 and 4"));

  const TemporaryFolder folder;
  folder.Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  folder.Write("tokenizer_config.json", R"({"model_max_length": 6, "pad_token": "[UNK]"})");
  const auto from_vocabulary = LoadTextPreparer(folder.path(), 0);
  REQUIRE(from_vocabulary.ok());
  CHECK(Prepare(**from_vocabulary, "a[UNK]")->ids == std::vector<int32_t>{2, 5, 1, 3});
}

TEST_CASE("A folder without a tokeniser, with broken JSON, or without a length limit says so") {
  const TemporaryFolder folder;
  CHECK(absl::IsNotFound(LoadTextPreparer(folder.path(), 0).status()));
  folder.Write("tokenizer.json", "{\"model\": ");
  CHECK(Contains(LoadTextPreparer(folder.path(), 0).status(), "tokenizer.json is not valid JSON"));
  folder.Write("tokenizer.json", "[]");
  CHECK(Contains(LoadTextPreparer(folder.path(), 0).status(), "tokenizer.json is no JSON object"));
  folder.Write("tokenizer.json", SmallTokenizer().dump());
  CHECK(Contains(LoadTextPreparer(folder.path(), 0).status(), "no length limit"));
  folder.Write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  folder.Write("config.json", R"({"max_position_embeddings": 5, "vocab_size": 12})");
  const auto preparer = LoadTextPreparer(folder.path(), 0);
  REQUIRE(preparer.ok());
  CHECK((*preparer)->max_tokens() == 5);
  CHECK((*preparer)->vocabulary_size() == 12);
  folder.Write("config.json", R"({"max_position_embeddings": 5, "vocab_size": 8})");
  CHECK(Contains(LoadTextPreparer(folder.path(), 0).status(), "vocab_size 8 is less than the tokeniser's 9"));
}

TEST_CASE("Ids that are none are refused, not wrapped") {
  const auto error = [](const char* path, const json& id) {
    json tokenizer = SmallTokenizer();
    tokenizer[json::json_pointer(path)] = id;
    return std::string(Load(tokenizer).status().message());
  };
  for (const char* path : {"/post_processor/cls/1", "/added_tokens/0/id", "/model/vocab/ab"}) {
    CAPTURE(path);
    CHECK_THAT(error(path, 4294967303), ContainsSubstring("token id 4294967303 is too large"));
    CHECK_THAT(error(path, -1), ContainsSubstring("token id -1 is negative"));
    CHECK_THAT(error(path, 5.5), ContainsSubstring("token id 5.5 is no whole number"));
    CHECK_THAT(error(path, "7"), ContainsSubstring("token id \"7\" is no whole number"));
  }
}

TEST_CASE("Pieces and added tokens of a million bytes are read, and files that are none or too deep are refused") {
  const std::string piece(1000000, 'x');
  json tokenizer = SmallTokenizer();
  tokenizer["model"]["vocab"][piece] = 9;
  tokenizer["added_tokens"].push_back({{"id", 10}, {"content", piece + "y"}, {"normalized", false}, {"special", true}});
  const auto preparer = Load(tokenizer);
  REQUIRE(preparer.ok());
  CHECK(Prepare(**preparer, "a " + piece + "y b")->ids == std::vector<int32_t>{2, 4, 10, 5, 3});

  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "config.json", "sentence_bert_config.json"}) {
    CAPTURE(file);
    const TemporaryFolder folder;
    folder.Write("tokenizer.json", SmallTokenizer().dump());
    folder.Write(file, "{\"x\":" + deep + "}");
    CHECK(Contains(LoadTextPreparer(folder.path(), 0).status(), std::string(file) + ": JSON deeper than 64 levels"));
    std::filesystem::remove(folder.File(file));
    REQUIRE(mkfifo(folder.File(file).c_str(), 0600) == 0);
    CHECK(Contains(LoadTextPreparer(folder.path(), 0).status(), std::string(file) + " is not a regular file"));
  }
}

TEST_CASE("A normaliser that lets a text grow without bound is refused") {
  json steps = json::array();
  for (int i = 0; i < 8; ++i) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  json tokenizer = SmallTokenizer();
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  CHECK(Load(tokenizer).ok());
  tokenizer["normalizer"]["normalizers"].push_back(steps[0]);
  CHECK_THAT(std::string(Load(tokenizer).status().message()),
             ContainsSubstring("can make a text 512 times as long, the limit is 256"));
  // A trie said to be larger than what is there.
  tokenizer["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "/P///w=="}};
  CHECK_THAT(std::string(Load(tokenizer).status().message()), ContainsSubstring("precompiled_charsmap is cut off"));
}

TEST_CASE("A prompt and its text are tokenised as one string, and cut as one") {
  const auto preparer = Small();
  const auto ids = [&](std::string_view prompt, std::string_view text, Truncation truncation = Truncation::kEnd) {
    return preparer->Prepare({.text = text, .token_ids = {}, .prompt = prompt}, truncation)->ids;
  };
  CHECK(ids("a ", "b") == std::vector<int32_t>{2, 4, 5, 3});
  CHECK(ids("a", "b") == std::vector<int32_t>{2, 7, 3});  // over the seam
  CHECK(ids("ab", "") == std::vector<int32_t>{2, 7, 3});
  CHECK(ids("a a ", "b b b") == std::vector<int32_t>{2, 4, 4, 5, 5, 3});
  CHECK(ids("a a ", "b b b", Truncation::kStart) == std::vector<int32_t>{2, 4, 5, 5, 5, 3});
}

TEST_CASE("One preparer serves many threads at once") {
  const auto preparer = Small();
  const auto expected = Prepare(*preparer, "ab abbc")->ids;
  std::vector<size_t> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (auto& count : wrong) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) count += Prepare(*preparer, "ab abbc")->ids == expected ? 0 : 1;
      });
    }
  }
  CHECK(wrong == std::vector<size_t>(4, 0));
}

}  // namespace
}  // namespace tributary
