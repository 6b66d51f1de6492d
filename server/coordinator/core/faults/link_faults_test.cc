#include "server/coordinator/core/faults/link_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using Links = std::vector<LinkReport>;

MonotonicTime At(absl::Duration since_start) {
  return MonotonicTime::FromNanos(1'000'000'000) + since_start;
}

// Members by name, all of whom joined in this order, with these ranks.
std::vector<LinkEnd> Ends(const std::vector<std::string>& names) {
  std::vector<LinkEnd> ends;
  for (const std::string& name : names) {
    ends.push_back({name, ends.size() + 1, static_cast<int>(ends.size())});
  }
  return ends;
}

TEST(RootLinksTest, AReportOfOneEndIsARoot) {
  EXPECT_EQ(RootLinks({{"b", "a"}}), Links({{"b", "a"}}));
  EXPECT_THAT(RootLinks({}), IsEmpty());
}

TEST(RootLinksTest, BothEndsOfALinkAreRoots) {
  EXPECT_EQ(RootLinks({{"b", "a"}, {"a", "b"}}),
            Links({{"b", "a"}, {"a", "b"}}));
}

TEST(RootLinksTest, WhoStopsForItsOwnReasonExplainsItsPeersReports) {
  // The order in which they come does not matter.
  EXPECT_EQ(RootLinks({{"b", "a"}, {"c", "b"}, {"d", "c"}}),
            Links({{"b", "a"}}));
  EXPECT_EQ(RootLinks({{"d", "c"}, {"c", "b"}, {"b", "a"}}),
            Links({{"b", "a"}}));
}

TEST(RootLinksTest, WhereAllAreExplainedTheFirstBeganIt) {
  EXPECT_EQ(RootLinks({{"b", "a"}, {"c", "b"}, {"d", "c"}, {"a", "d"}}),
            Links({{"b", "a"}}));
}

TEST(StrongestReportsTest, AClosedConnectionSaysNothingBesideAnotherFailure) {
  const LinkReport closed{.observer = "c", .peer = "b", .is_closed = true};
  const LinkReport silent{.observer = "b", .peer = "a"};
  EXPECT_EQ(StrongestReports({closed, silent}), Links({silent}));
  EXPECT_EQ(StrongestReports({closed}), Links({closed}));
  EXPECT_THAT(StrongestReports({}), IsEmpty());
}

TEST(LinkFaultsTest, ALinkIsClosedTooOftenWithinAMinute) {
  LinkFaults faults;
  const Links both_ends = {{"a", "b"}, {"b", "a"}};
  for (int second = 0; second < 4; ++second) {
    faults.OnStep();
    faults.OnClosed(both_ends, At(absl::Seconds(second)));
  }
  faults.OnStep();
  EXPECT_THAT(faults.OftenClosed(At(absl::Seconds(3))), IsEmpty());
  // The first is too long ago by now.
  faults.OnClosed(both_ends, At(absl::Seconds(60)));
  EXPECT_THAT(faults.OftenClosed(At(absl::Seconds(60))), IsEmpty());
  const MonotonicTime fifth = At(absl::Milliseconds(60'500));
  faults.OnClosed(both_ends, fifth);
  EXPECT_EQ(faults.OftenClosed(fifth),
            Links({{"a", "b", false, true}, {"b", "a", false, true}}));
  // Steps were made, and the second is too long ago.
  faults.OnStep();
  EXPECT_THAT(faults.OftenClosed(At(absl::Seconds(61))), IsEmpty());
}

TEST(LinkFaultsTest, AnEndThatSaysSoLessThanEverySecondTimeHasNotSaidSo) {
  LinkFaults faults;
  const MonotonicTime now = At(absl::Seconds(1));
  faults.OnClosed({{"a", "b"}, {"b", "a"}}, now);
  for (int i = 1; i < LinkFaults::kManyClosed; ++i)
    faults.OnClosed({{"b", "a"}}, now);
  EXPECT_EQ(faults.OftenClosed(now), Links({{"b", "a", false, true}}));
}

TEST(LinkFaultsTest, TellsWhatWasClosedLessOften) {
  LinkFaults faults;
  const MonotonicTime now = At(absl::Seconds(1));
  for (int i = 0; i < LinkFaults::kSomeClosed; ++i)
    faults.OnClosed({{"a", "c"}}, now);
  for (int i = 0; i < LinkFaults::kManyClosed; ++i)
    faults.OnClosed({{"b", "c"}}, now);
  faults.OnClosed({{"a", "b"}}, now);
  const LinkReport often = {"b", "c", false, true};
  EXPECT_EQ(faults.OftenClosed(now), Links({often}));
  const Links some = faults.ClosedTimes(LinkFaults::kSomeClosed, now);
  EXPECT_EQ(some, Links({{"a", "c", false, true}, often}));
  EXPECT_THAT(SmallestCover({often}, Ends({"a", "b", "c"}), some),
              ElementsAre("c"));
}

TEST(LinkFaultsTest, WhatIsNotedIsNoFault) {
  LinkFaults faults;
  faults.Note({{"a", "b"}});
  EXPECT_EQ(faults.faults(), 0);
  EXPECT_EQ(faults.links(), Links({{"a", "b"}}));
}

TEST(LinkFaultsTest, ALinkThatCostOneOfItsEndsIsCountedAnew) {
  LinkFaults faults;
  const MonotonicTime now = At(absl::Seconds(1));
  for (int i = 0; i < LinkFaults::kManyClosed; ++i)
    faults.OnClosed({{"a", "b"}}, now);
  EXPECT_THAT(faults.OftenClosed(now), SizeIs(1));
  faults.Remember({"b", "a"}, now);
  EXPECT_THAT(faults.OftenClosed(now), IsEmpty());
}

TEST(LinkFaultsTest, WithoutAStepItDoesNotMatterHowLongAgo) {
  LinkFaults faults;
  for (int minute = 0; minute < LinkFaults::kManyClosed; ++minute) {
    const MonotonicTime now = At(absl::Minutes(2 * minute));
    EXPECT_THAT(faults.OftenClosed(now), IsEmpty());
    faults.OnClosed({{"a", "b"}}, now);
  }
  EXPECT_THAT(faults.OftenClosed(At(absl::Hours(1))), SizeIs(1));
}

TEST(LinkFaultsTest, IsStuckWhereConnectionsAreClosedAgainAndAgainAtOneStep) {
  LinkFaults faults;
  const MonotonicTime now = At(absl::Seconds(1));
  faults.OnClosed({{"a", "z"}}, now);
  faults.OnStep();
  // Each time another link, or none that anybody knows.
  for (int i = 1; i < LinkFaults::kManyRounds; ++i)
    faults.OnClosed(i == 1 ? Links({{"a", "b"}}) : Links(), now);
  EXPECT_FALSE(faults.IsStuck());
  faults.OnClosed({{"b", "c"}}, now);
  EXPECT_TRUE(faults.IsStuck());
  EXPECT_THAT(faults.OftenClosed(now), IsEmpty());
  EXPECT_EQ(faults.ClosedAtThisStep(),
            Links({{"a", "b", false, true}, {"b", "c", false, true}}));
  faults.Remember({"a", "b"}, now);
  EXPECT_FALSE(faults.IsStuck());
}

TEST(LinkFaultsTest, IsNotStuckAsLongAsStepsAreMade) {
  LinkFaults faults;
  const MonotonicTime now = At(absl::Seconds(1));
  for (int i = 0; i < 2 * LinkFaults::kManyRounds; ++i) {
    faults.OnClosed({{"a", "b"}}, now);
    EXPECT_FALSE(faults.IsStuck());
    if (i % 2 == 0) {
      faults.OnStep();
    } else {
      faults.OnLateStep();
    }
  }
}

TEST(IsCircularTest, IsTrueWhereNoReportStandsForItself) {
  EXPECT_TRUE(IsCircular({{"b", "a"}, {"c", "b"}, {"d", "c"}, {"a", "d"}}));
  EXPECT_FALSE(IsCircular({{"b", "a"}, {"c", "b"}, {"d", "c"}}));
  EXPECT_FALSE(IsCircular({{"b", "a"}, {"a", "b"}}));
  EXPECT_FALSE(IsCircular({}));
}

TEST(RootLinksTest, WhoNeverGotAConnectionSaysWhatItSaw) {
  const LinkReport c_to_b{"c", "b", true};
  EXPECT_EQ(RootLinks({{"b", "a", true}, c_to_b}),
            Links({{"b", "a", true}, c_to_b}));
}

TEST(SmallestCoverTest, NothingIsBroken) {
  EXPECT_THAT(SmallestCover({}, Ends({"a", "b"})), IsEmpty());
}

TEST(SmallestCoverTest, OneLinkCostsTheEndThatJoinedLast) {
  const Links mutual = {{"b", "a"}, {"a", "b"}};
  EXPECT_THAT(SmallestCover(mutual, Ends({"a", "b", "c"})), ElementsAre("b"));
  EXPECT_THAT(SmallestCover(mutual, Ends({"b", "a"})), ElementsAre("a"));
}

TEST(SmallestCoverTest, OfALinkThatOneEndReportsThatEndGoes) {
  EXPECT_THAT(SmallestCover({{"a", "b"}}, Ends({"a", "b"})), ElementsAre("a"));
  EXPECT_THAT(SmallestCover({{"a", "b"}}, Ends({"b", "a"})), ElementsAre("a"));
}

TEST(SmallestCoverTest, WhomTwoReportGoes) {
  EXPECT_THAT(SmallestCover({{"a", "b"}, {"c", "b"}}, Ends({"a", "b", "c"})),
              ElementsAre("b"));
  // One of these links need not be covered.
  EXPECT_THAT(SmallestCover({{"a", "b"}}, Ends({"a", "b", "c"}), {{"c", "b"}}),
              ElementsAre("b"));
  // The first of them has gone.
  EXPECT_THAT(SmallestCover({{"a", "b"}, {"c", "b"}}, Ends({"b", "c"})),
              ElementsAre("b"));
}

TEST(SmallestCoverTest, WhomTwoReportGoesBeforeAnEndOfAsManyLinks) {
  // Each of a and b is an end of two links, and "gone" alone has reported a.
  EXPECT_THAT(SmallestCover({{"a", "b"}}, Ends({"a", "b", "c"}),
                            {{"c", "b"}, {"gone", "a"}, {"gone", "c"}}),
              ElementsAre("b"));
}

TEST(SmallestCoverTest, OfTwoThatReportEachOtherWhoCouldNotBeReachedGoes) {
  const LinkReport probe = {"b", "a", /*is_unreached=*/true,
                            /*is_closed=*/false, /*is_probed=*/true};
  EXPECT_THAT(SmallestCover({probe}, Ends({"a", "b"}), {{"a", "b"}}),
              ElementsAre("a"));
}

// "cut" reaches nobody, and b alone says so of a.
TEST(SmallestCoverTest, ALinkWithOneThatIsAtFaultAnywaySaysNothing) {
  EXPECT_THAT(
      SmallestCover({{"cut", "a"}, {"cut", "c"}, {"cut", "d"}, {"b", "a"}},
                    Ends({"b", "a", "c", "d", "cut"})),
      ElementsAre("b", "cut"));
}

// "y" has no other link than that with "x", so it may be innocent, and the link
// counts for "x".
TEST(SmallestCoverTest, ALinkWithOneThatMayBeInnocentCounts) {
  EXPECT_THAT(SmallestCover({{"x", "y"}, {"b", "a"}},
                            Ends({"y", "b", "x", "a"}), {{"b", "x"}}),
              ElementsAre("b", "x"));
}

TEST(SmallestCoverTest, OfThoseThatJoinedTogetherTheHigherRankGoes) {
  EXPECT_THAT(
      SmallestCover({{"a", "b"}, {"b", "a"}}, {{"a", 7, 5}, {"b", 7, 2}}),
      ElementsAre("a"));
}

TEST(SmallestCoverTest, TheMemberCutFromAllGoesAlone) {
  EXPECT_THAT(SmallestCover({{"b", "a"}, {"c", "a"}, {"a", "d"}},
                            Ends({"a", "b", "c", "d"})),
              ElementsAre("a"));
}

TEST(SmallestCoverTest, LinksWithThoseWhoAreGoneDecideTies) {
  EXPECT_THAT(SmallestCover({{"a", "b"}, {"a", "gone"}}, Ends({"a", "b"})),
              ElementsAre("a"));
}

TEST(SmallestCoverTest, LinksBetweenOthersCostNobody) {
  EXPECT_THAT(SmallestCover({{"x", "y"}, {"a", "y"}}, Ends({"a", "b"})),
              IsEmpty());
}

TEST(SmallestCoverTest, GreedyWouldTakeOneMore) {
  // The middle of a spider is linked most, but its legs must be cut anyway.
  const Links spider = {{"m", "a"}, {"m", "b"}, {"m", "c"},
                        {"a", "x"}, {"b", "y"}, {"c", "z"}};
  EXPECT_THAT(SmallestCover(spider, Ends({"m", "a", "b", "c", "x", "y", "z"})),
              ElementsAre("a", "b", "c"));
}

TEST(SmallestCoverTest, ManyEndsAreCoveredGreedily) {
  Links links;
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) {
    links.push_back({absl::StrCat("a", i), absl::StrCat("b", i)});
    names.push_back(absl::StrCat("a", i));
    names.push_back(absl::StrCat("b", i));
  }
  EXPECT_THAT(SmallestCover(links, Ends(names)), SizeIs(12));
}

TEST(SmallestCoverTest, IsTheSmallestOfAllSubsets) {
  std::mt19937_64 random(1);
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g"};
  for (int round = 0; round < 200; ++round) {
    Links links;
    for (size_t i = 0; i < names.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (random() % 3 == 0) links.push_back({names[i], names[j]});
      }
    }
    size_t smallest = names.size();
    const auto covers = [&](unsigned set) {
      for (const LinkReport& link : links) {
        if ((set >> (link.observer[0] - 'a') & 1) == 0 &&
            (set >> (link.peer[0] - 'a') & 1) == 0) {
          return false;
        }
      }
      return true;
    };
    for (unsigned set = 0; set < 128; ++set) {
      if (covers(set)) {
        smallest = std::min<size_t>(smallest, __builtin_popcount(set));
      }
    }
    const std::vector<std::string> cover = SmallestCover(links, Ends(names));
    unsigned chosen = 0;
    for (const std::string& name : cover) chosen |= 1u << (name[0] - 'a');
    EXPECT_TRUE(covers(chosen));
    EXPECT_EQ(cover.size(), smallest);
  }
}

TEST(LinkFaultsTest, CountsFaultsUntilAStep) {
  LinkFaults faults;
  EXPECT_EQ(faults.OnFault({{"a", "b"}}), 1);
  EXPECT_EQ(faults.OnFault({{"b", "a"}, {"a", "b"}, {"c", "b"}}), 2);
  EXPECT_EQ(faults.links(), Links({{"a", "b"}, {"b", "a"}, {"c", "b"}}));
  faults.OnStep();
  EXPECT_THAT(faults.links(), IsEmpty());
  EXPECT_EQ(faults.OnFault({{"a", "b"}}), 1);
}

TEST(LinkFaultsTest, AStepThatWasMadeBeforeTheLastFaultLeavesThatOne) {
  LinkFaults faults;
  faults.OnLateStep();
  EXPECT_EQ(faults.OnFault({{"a", "b"}}), 1);
  EXPECT_EQ(faults.OnFault({{"a", "b"}}), 2);
  faults.OnLateStep();
  EXPECT_EQ(faults.OnFault({{"a", "b"}}), 2);
}

TEST(LinkFaultsTest, KeepsABadPairApartForAWhile) {
  LinkFaults faults;
  const MonotonicTime start = At(absl::ZeroDuration());
  EXPECT_THAT(faults.BadPeersOf("a", start), IsEmpty());
  EXPECT_EQ(faults.NextExpiry(start), MonotonicTime::InfiniteFuture());
  faults.Remember({"b", "a"}, start);
  EXPECT_THAT(faults.BadPeersOf("a", start), ElementsAre("b"));
  EXPECT_THAT(faults.BadPeersOf("b", At(absl::Seconds(29))), ElementsAre("a"));
  EXPECT_THAT(faults.BadPeersOf("c", start), IsEmpty());
  EXPECT_EQ(faults.NextExpiry(start), At(absl::Seconds(30)));
  EXPECT_THAT(faults.BadPeersOf("a", At(absl::Seconds(30))), IsEmpty());
  EXPECT_EQ(faults.NextExpiry(At(absl::Seconds(30))),
            MonotonicTime::InfiniteFuture());
}

TEST(LinkFaultsTest, NamesThePeersToKeepAWorkerFrom) {
  LinkFaults faults;
  const MonotonicTime start = At(absl::ZeroDuration());
  EXPECT_THAT(faults.BadPeersOf("b", start), IsEmpty());
  faults.Remember({"b", "c"}, start);
  faults.Remember({"a", "b"}, At(absl::Seconds(10)));
  faults.Remember({"c", "d"}, start);
  EXPECT_THAT(faults.BadPeersOf("b", At(absl::Seconds(29))),
              ElementsAre("a", "c"));
  EXPECT_THAT(faults.BadPeersOf("b", At(absl::Seconds(30))), ElementsAre("a"));
  EXPECT_THAT(faults.BadPeersOf("e", start), IsEmpty());
}

TEST(LinkFaultsTest, WhatWasSaidOfABadPairOutlastsAStep) {
  LinkFaults faults;
  const MonotonicTime start = At(absl::ZeroDuration());
  EXPECT_THAT(faults.Remembered(start), IsEmpty());
  faults.Remember({"b", "a"}, start);
  faults.Remember({"b", "c"}, At(absl::Seconds(10)));
  faults.Remember({"c", "b"}, At(absl::Seconds(10)));
  faults.OnStep();
  EXPECT_THAT(faults.Remembered(At(absl::Seconds(29))),
              UnorderedElementsAre(LinkReport{"b", "a"}, LinkReport{"b", "c"},
                                   LinkReport{"c", "b"}));
  EXPECT_THAT(faults.Remembered(At(absl::Seconds(30))),
              UnorderedElementsAre(LinkReport{"b", "c"}, LinkReport{"c", "b"}));
  // The other end says it next time.
  faults.Remember({"a", "b"}, At(absl::Seconds(31)));
  faults.OnStep();
  EXPECT_THAT(faults.Remembered(At(absl::Seconds(50))),
              UnorderedElementsAre(LinkReport{"a", "b"}));
}

TEST(LinkFaultsTest, KeepsThemApartTwiceAsLongIfTheyFailSoonAgain) {
  LinkFaults faults;
  MonotonicTime now = At(absl::ZeroDuration());
  for (const int seconds : {30, 60, 120, 240, 480, 600, 600}) {
    faults.Remember({"a", "b"}, now);
    // Repeating it meanwhile changes nothing.
    faults.Remember({"b", "a"}, now + absl::Seconds(1));
    EXPECT_EQ(faults.NextExpiry(now), now + absl::Seconds(seconds));
    now += absl::Seconds(seconds) + absl::Seconds(1);
  }
  // It was good for as long as it was bad, so it is forgotten.
  now += absl::Seconds(600);
  faults.Remember({"a", "b"}, now);
  EXPECT_EQ(faults.NextExpiry(now), now + absl::Seconds(30));
}

TEST(LinkFaultsTest, AStepDoesNotBringABadPairTogether) {
  LinkFaults faults;
  const MonotonicTime start = At(absl::ZeroDuration());
  faults.Remember({"a", "b"}, start);
  faults.OnStep();
  EXPECT_THAT(faults.BadPeersOf("a", start), ElementsAre("b"));
}

}  // namespace
}  // namespace ringmaster::coordinator
