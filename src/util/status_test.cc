#include "util/status.h"

#include <gtest/gtest.h>

#include <set>

#include "util/memory.h"
#include "util/uuid.h"

namespace thalweg {
namespace {

TEST(Status, KindsTravelWithTheStatus) {
  EXPECT_EQ(KindOf(Conflict("snapshot {} is gone", 7)), FailureKind::kConflict);
  EXPECT_EQ(KindOf(UnknownOutcome("no answer")), FailureKind::kUnknown);
  EXPECT_EQ(KindOf(Usage("bad {}", "flag")), FailureKind::kUsage);
  EXPECT_EQ(KindOf(Invalid("broken")), FailureKind::kError);
  EXPECT_EQ(KindOf(arrow::Status::IOError("disk")), FailureKind::kError);
  EXPECT_EQ(KindOf(arrow::Status::OK()), FailureKind::kError);
  EXPECT_EQ(Conflict("snapshot {} is gone", 7).message(), "snapshot 7 is gone");
  const arrow::Status copy = Conflict("x").WithMessage("while committing: x");
  EXPECT_EQ(KindOf(copy), FailureKind::kConflict);
}

TEST(MemoryAccount, HoldsPeaksAndReleases) {
  MemoryAccount account(100);
  {
    Reservation first(&account, 70);
    EXPECT_EQ(account.held(), 70);
    EXPECT_EQ(account.over(40), 10);
    Reservation second(&account, 60);
    EXPECT_EQ(account.over(), 30);
    Reservation moved = std::move(second);
    EXPECT_EQ(account.held(), 130);
    EXPECT_EQ(second.bytes(), 0);
    moved = Reservation(&account, 10);
    EXPECT_EQ(account.held(), 80);
    moved.Reset();
    moved.Reset();
    EXPECT_EQ(account.held(), 70);
  }
  EXPECT_EQ(account.held(), 0);
  EXPECT_EQ(account.peak(), 140);  // the new reservation was made before the old one was released
  EXPECT_EQ(account.limit(), 100);
}

TEST(Uuid, CanonicalAndDistinct) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = NewUuid();
    ASSERT_EQ(uuid.size(), 36u);
    for (size_t at = 0; at < uuid.size(); ++at) {
      if (at == 8 || at == 13 || at == 18 || at == 23) {
        ASSERT_EQ(uuid[at], '-');
      } else {
        ASSERT_NE(std::string("0123456789abcdef").find(uuid[at]), std::string::npos) << uuid;
      }
    }
    ASSERT_EQ(uuid[14], '7');
    ASSERT_NE(std::string("89ab").find(uuid[19]), std::string::npos) << uuid;
    ASSERT_TRUE(seen.insert(uuid).second);
    ASSERT_GT(NewRandomId(), 0);
  }
  EXPECT_GT(NowMillis(), int64_t{1577836800000});  // 2020
}

TEST(Uuid, TellsItsTime) {
  // The example of RFC 9562, appendix A.6.
  EXPECT_EQ(TimeOfUuid("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), 1645557742000);
  const int64_t before = NowMillis();
  const auto made = TimeOfUuid(NewUuid());
  ASSERT_TRUE(made);
  EXPECT_GE(*made, before);
  EXPECT_LE(*made, NowMillis());
  for (const char* other :
       {"", "nightly-1", "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398", "017f22e279b0-7cc3-98c4-dc0c0c07398f-",
        "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"}) {
    EXPECT_EQ(TimeOfUuid(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace thalweg
