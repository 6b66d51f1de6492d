#include "server/coordinator/page/history.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/time_util.h"
#include "gtest/gtest.h"
#include "server/coordinator/page/curve.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Curve, AShortOneIsKeptWhole) {
  Curve curve;
  curve.Add({10, 1, 5.0});
  curve.Add({20, 2, 3.0});
  curve.Add({30, 3, 4.0});
  EXPECT_THAT(curve.Points(),
              ElementsAre(CurvePoint{10, 1, 5.0}, CurvePoint{20, 2, 3.0},
                          CurvePoint{30, 3, 4.0}));
}

TEST(Curve, AnyLengthStaysUnderTheBoundAndKeepsSpikes) {
  Curve curve;
  for (int64_t step = 1; step <= 36'000; ++step) {
    double value = std::exp(-static_cast<double>(step) / 9000);
    if (step == 17'321) value = 50;
    if (step == 20'005) value = -7;
    curve.Add({step * 100, step, value});
    ASSERT_LE(curve.Points().size(), Curve::kMaxPoints);
  }
  const std::vector<CurvePoint> points = curve.Points();
  EXPECT_GE(points.size(), Curve::kMaxBuckets / 2);
  EXPECT_THAT(points, ::testing::Contains(CurvePoint{1'732'100, 17'321, 50}));
  EXPECT_THAT(points, ::testing::Contains(CurvePoint{2'000'500, 20'005, -7}));
  EXPECT_EQ(points.front().step, 1);
  EXPECT_EQ(points.back().step, 36'000);
  for (size_t i = 1; i < points.size(); ++i)
    EXPECT_LT(points[i - 1].time_ms, points[i].time_ms);
}

TEST(Curve, LeavesOutWhatIsNotFinite) {
  Curve curve;
  curve.Add({10, 1, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_TRUE(curve.Points().empty());
  curve.Add({20, 2, 1.5});
  curve.Add({30, 3, std::numeric_limits<double>::infinity()});
  EXPECT_THAT(curve.Points(), ElementsAre(CurvePoint{20, 2, 1.5}));
}

TEST(Curve, GoesOnFromItsMessageAsIfNothingHadHappened) {
  Curve whole;
  Curve first;
  for (int64_t step = 1; step <= 3000; ++step) {
    const CurvePoint point{step * 100, step, std::sin(0.01 * step)};
    whole.Add(point);
    if (step == 1777) first = Curve::FromProto(whole.ToProto());
    if (step > 1777) first.Add(point);
  }
  EXPECT_EQ(first.Points(), whole.Points());
}

TEST(Curve, OfAMessageThatBreaksItsBoundsIsEmpty) {
  Curve curve;
  curve.Add({10, 1, 5.0});
  const v1::Curve good = curve.ToProto();
  EXPECT_EQ(Curve::FromProto(good).Points().size(), 1);
  v1::Curve bad = good;
  bad.set_bucket_width(0);
  EXPECT_TRUE(Curve::FromProto(bad).Points().empty());
  bad = good;
  for (size_t i = 0; i < Curve::kMaxBuckets; ++i)
    *bad.add_buckets() = good.buckets(0);
  EXPECT_TRUE(Curve::FromProto(bad).Points().empty());
  bad = good;
  bad.mutable_buckets(0)->set_count(0);
  EXPECT_TRUE(Curve::FromProto(bad).Points().empty());
  bad = good;
  bad.mutable_buckets(0)->mutable_highest()->set_value(
      std::numeric_limits<double>::infinity());
  EXPECT_TRUE(Curve::FromProto(bad).Points().empty());
  bad = good;
  bad.mutable_newest()->set_value(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(Curve::FromProto(bad).Points().empty());
}

v1::Status StatusAt(int64_t time_ms, const std::string& job, int64_t step) {
  v1::Status status;
  *status.mutable_time() =
      google::protobuf::util::TimeUtil::MillisecondsToTimestamp(time_ms);
  v1::Job& shown = *status.add_jobs();
  shown.set_id(job);
  shown.mutable_figures()->set_step(step);
  shown.mutable_figures()->set_loss(2.5);
  shown.mutable_figures()->set_samples_per_second(100);
  shown.mutable_figures()->set_communication_wait_ratio(0.25);
  return status;
}

TEST(History, TakesEachStepAndEachEvaluationOnce) {
  History history;
  history.Take(StatusAt(500, "a-1", 0));
  EXPECT_EQ(history.Find("a-1"), nullptr);
  history.Take(StatusAt(1000, "a-1", 7));
  history.Take(StatusAt(1500, "a-1", 7));
  v1::Status evaluated = StatusAt(2000, "a-1", 9);
  evaluated.mutable_jobs(0)->mutable_figures()->set_evaluation_loss(2.25);
  evaluated.mutable_jobs(0)->mutable_figures()->set_evaluation_step(8);
  history.Take(evaluated);
  history.Take(evaluated);
  EXPECT_EQ(CurvesJson(history.Find("a-1")),
            "{\"loss\":[[1000,7,2.5],[2000,9,2.5]],"
            "\"evaluation_loss\":[[2000,8,2.25]],"
            "\"samples_per_second\":[[1000,7,100],[2000,9,100]],"
            "\"exposed_ratio\":[[1000,7,0.25],[2000,9,0.25]]}");
}

TEST(History, ForgetsJobsThatAreNoLongerShown) {
  History history;
  history.Take(StatusAt(1000, "a-1", 7));
  history.Take(StatusAt(2000, "b-2", 1));
  EXPECT_EQ(history.Find("a-1"), nullptr);
  EXPECT_NE(history.Find("b-2"), nullptr);
}

TEST(History, OfManyJobsKeepsTheBusiest) {
  History history;
  v1::Status status;
  for (int i = 0; i < 100; ++i) {
    *status.add_jobs() = StatusAt(0, absl::StrCat("job-", i), 1).jobs(0);
  }
  history.Take(status);
  EXPECT_EQ(history.size(), History::kMaxJobs);
}

TEST(History, GoesOnFromItsMessage) {
  History before;
  before.Take(StatusAt(1000, "a-1", 7));
  v1::Status evaluated = StatusAt(2000, "a-1", 9);
  evaluated.mutable_jobs(0)->mutable_figures()->set_evaluation_loss(2.25);
  evaluated.mutable_jobs(0)->mutable_figures()->set_evaluation_step(8);
  before.Take(evaluated);
  History after(before.ToProto());
  // A coordinator that has just begun knows the job, and no figures of it yet.
  after.Take(StatusAt(2500, "a-1", 0));
  after.Take(evaluated);
  EXPECT_EQ(after.revision(), 0);
  EXPECT_EQ(CurvesJson(after.Find("a-1")), CurvesJson(before.Find("a-1")));
  after.Take(StatusAt(3000, "a-1", 11));
  EXPECT_EQ(after.revision(), 1);
  EXPECT_THAT(CurvesJson(after.Find("a-1")),
              HasSubstr("\"loss\":[[1000,7,2.5],[2000,9,2.5],[3000,11,2.5]]"));
}

TEST(CurvesJson, OfAJobThatIsNotKnownIsEmpty) {
  EXPECT_THAT(CurvesJson(nullptr), HasSubstr("\"loss\":[],"));
}

}  // namespace
}  // namespace ringmaster::coordinator
