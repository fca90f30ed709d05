#include "engine/fuse/fusion_join.h"

#include <atomic>
#include <thread>

#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("The join answers true for the last part only, in any order and with a part missing") {
  FusionJoin both(true, true);
  CHECK_FALSE(both.Arrive(FusionJoin::kImage, absl::OkStatus(), {1}));
  CHECK(both.Arrive(FusionJoin::kText, absl::OkStatus(), {2}));
  FusionJoin text_only(true, false);
  CHECK(text_only.Arrive(FusionJoin::kText, absl::OkStatus(), {1}));
}

TEST_CASE("Parts are normalised for fusion, returned as they came, and empty where absent") {
  FusionJoin join(true, false);
  join.Arrive(FusionJoin::kText, absl::OkStatus(), {3, 4});
  CHECK(*join.NormalisedPart(FusionJoin::kText) == std::vector<float>{0.6f, 0.8f});
  CHECK(join.NormalisedPart(FusionJoin::kImage)->empty());
  CHECK(join.TakePart(FusionJoin::kText) == std::vector<float>{3, 4});
}

TEST_CASE("A failed part gives the pair its status, the text's before the image's") {
  FusionJoin join(true, true);
  join.Arrive(FusionJoin::kImage, absl::InternalError("image"), {});
  join.Arrive(FusionJoin::kText, absl::InvalidArgumentError("text"), {});
  CHECK(join.status() == absl::InvalidArgumentError("text"));
  FusionJoin image(true, true);
  image.Arrive(FusionJoin::kText, absl::OkStatus(), {1});
  image.Arrive(FusionJoin::kImage, absl::InternalError("image"), {});
  CHECK(image.status() == absl::InternalError("image"));
}

TEST_CASE("A part of length zero cannot be normalised") {
  FusionJoin join(true, false);
  join.Arrive(FusionJoin::kText, absl::OkStatus(), {0, 0});
  CHECK(join.NormalisedPart(FusionJoin::kText).status().code() == absl::StatusCode::kInternal);
}

TEST_CASE("Of two parts that arrive at once exactly one is the last, and it sees both") {
  for (int round = 0; round < 500; ++round) {
    FusionJoin join(true, true);
    std::atomic<int> last{0};
    std::atomic<int> seen{0};
    auto arrive = [&](size_t part) {
      if (!join.Arrive(part, absl::OkStatus(), {1})) return;
      ++last;
      const auto text = join.NormalisedPart(FusionJoin::kText);
      const auto image = join.NormalisedPart(FusionJoin::kImage);
      if (text.ok() && text->size() == 1 && image.ok() && image->size() == 1) ++seen;
    };
    std::thread text(arrive, FusionJoin::kText);
    arrive(FusionJoin::kImage);
    text.join();
    REQUIRE(last == 1);
    REQUIRE(seen == 1);
  }
}

}  // namespace
}  // namespace tributary
