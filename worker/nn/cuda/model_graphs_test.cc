// Models on a GPU whose passes are replayed as graphs, against the same models
// whose passes are queued kernel by kernel: the same bits, whatever changes
// between passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/plan/plan.h"
#include "common/tensor/allocator.h"
#include "common/transport/cancel_token.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/model_on_device.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster::cuda {
namespace {

// Copies each bucket to the host, on a stream of its own, as soon as it is
// reported final: a collective would read the same.
class BucketCopies final : public GradientObserver {
 public:
  BucketCopies(CudaDevice& device, CudaStream& compute, const Plan& plan)
      : compute_(compute),
        plan_(plan),
        copies_(*CudaStream::Create("copies")),
        host_(*device.pinned_allocator().Allocate(plan.total_elems() *
                                                  int64_t{sizeof(float)})) {
    for (size_t i = 0; i < plan.buckets().size(); ++i)
      events_.push_back(*CudaEvent::Create());
  }

  // Before a pass; without gradients, nothing is copied.
  void Begin(const float* gradients) {
    gradients_ = gradients;
    next_ = 0;
    order_.clear();
  }
  void OnTensorDone(int tensor_index) override {
    order_.push_back(tensor_index);
    if (gradients_ == nullptr) return;
    for (const Bucket& bucket : plan_.BucketsCompletedBy(tensor_index)) {
      copies_->WaitFor(compute_.MarkReady(*events_[next_++]));
      copies_->CopyToHost(host() + bucket.range.begin,
                          gradients_ + bucket.range.begin,
                          bucket.range.count * int64_t{sizeof(float)});
    }
  }
  const std::vector<int>& order() const { return order_; }
  // Waits for the copies and returns them.
  std::vector<float> Await() {
    EXPECT_TRUE(copies_->Synchronize().ok());
    return {host(), host() + plan_.total_elems()};
  }

 private:
  float* host() const { return static_cast<float*>(host_.data()); }

  CudaStream& compute_;
  const Plan& plan_;
  const std::unique_ptr<CudaStream> copies_;
  const Allocation host_;
  std::vector<std::unique_ptr<CudaEvent>> events_;
  const float* gradients_ = nullptr;
  size_t next_ = 0;
  std::vector<int> order_;
};

// A model, with buckets so small that each gradient has some.
class Subject {
 public:
  struct Step {
    double loss = 0;
    std::vector<float> gradients;  // tensor by tensor
    std::vector<float> copied;     // the same, bucket by bucket

    bool operator==(const Step&) const = default;
  };

  Subject(CudaDevice& device, CudaStream& stream,
          const ModelInstance<float>& cpu, const ModelCase& test_case,
          bool use_graphs)
      : on_device_(stream, cpu, test_case, use_graphs),
        plan_(*Plan::Create(test_case.config.kind, cpu.model->specs(),
                            {.bucket_bytes = 512})),
        copies_(device, stream, plan_) {
    EXPECT_GT(plan_.buckets().size(), 3u);
    EXPECT_EQ(plan_.total_elems(), cpu.plan.total_elems());
    Bind(cpu.parameters);
  }

  Model<float>& model() { return on_device_.model(); }
  BucketCopies& copies() { return copies_; }
  // Binds the model to new arenas.
  void Bind(const std::vector<float>& parameters) {
    auto new_parameters = std::make_unique<DeviceArray<float>>(parameters);
    auto new_gradients =
        std::make_unique<DeviceArray<float>>(plan_.total_elems());
    const size_t elems = parameters.size();
    EXPECT_TRUE(model()
                    .Bind(plan_,
                          absl::MakeConstSpan(new_parameters->get(), elems),
                          absl::MakeSpan(new_gradients->get(), elems))
                    .ok());
    parameters_ = std::move(new_parameters);
    gradients_ = std::move(new_gradients);
  }
  // In place, as an optimizer does.
  void SetParameters(const std::vector<float>& parameters) {
    EXPECT_EQ(
        cudaMemcpy(parameters_->get(), parameters.data(),
                   parameters.size() * sizeof(float), cudaMemcpyHostToDevice),
        cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  Step Train(const std::vector<Batch>& micro_batches, TrainOptions options) {
    for (size_t i = 0; i < micro_batches.size(); ++i) {
      const bool is_last = i + 1 == micro_batches.size();
      copies_.Begin(is_last ? gradients_->get() : nullptr);
      model().ForwardBackward(micro_batches[i], options, copies_);
      options.write = Write::kAdd;
    }
    Step step;
    step.copied = TensorsOf(copies_.Await());
    const absl::StatusOr<DeviceReport> report = model().AwaitDevice();
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok()) return step;
    EXPECT_GT(report->forward, absl::ZeroDuration());
    EXPECT_GT(report->backward, absl::ZeroDuration());
    step.loss = report->loss_sum;
    step.gradients = TensorsOf(gradients_->Read());
    return step;
  }

 private:
  std::vector<float> TensorsOf(const std::vector<float>& arena) const {
    std::vector<float> elems;
    for (const PlannedTensor& tensor : plan_.tensors()) {
      const auto begin = arena.begin() + tensor.range.begin;
      elems.insert(elems.end(), begin, begin + tensor.range.count);
    }
    return elems;
  }

  ModelOnDevice on_device_;
  const Plan plan_;
  std::unique_ptr<DeviceArray<float>> parameters_;
  std::unique_ptr<DeviceArray<float>> gradients_;
  BucketCopies copies_;
};

class ModelGraphsTest : public DeviceTest,
                        public ::testing::WithParamInterface<ModelCase> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    cpu_ = std::make_unique<ModelInstance<float>>(GetParam().config,
                                                  ModelOnDevice::kMaxBatch);
    cpu_->RandomizeParameters();
    queued_ = MakeSubject(/*use_graphs=*/false);
    replayed_ = MakeSubject(/*use_graphs=*/true);
  }
  std::unique_ptr<Subject> MakeSubject(bool use_graphs) {
    return std::make_unique<Subject>(device(), stream(), *cpu_, GetParam(),
                                     use_graphs);
  }
  // Trains both; passes of the one that may replay launch `launches` graphs.
  void ExpectSameStep(const std::vector<Batch>& micro_batches,
                      const TrainOptions& options, int64_t launches) {
    const Subject::Step want = queued_->Train(micro_batches, options);
    const int64_t before = CudaGraph::TotalLaunches();
    const Subject::Step got = replayed_->Train(micro_batches, options);
    EXPECT_EQ(CudaGraph::TotalLaunches() - before, launches);
    EXPECT_EQ(want.copied, want.gradients);
    EXPECT_EQ(got.copied, got.gradients) << "a bucket was read too early";
    EXPECT_TRUE(got == want);
    EXPECT_EQ(replayed_->copies().order(), queued_->copies().order());
  }
  // The batches and options of a step: another batch, key and scale for each.
  std::vector<Batch> Batches(const std::vector<int64_t>& sizes,
                             uint64_t step) const {
    std::vector<Batch> batches;
    for (const int64_t size : sizes)
      batches.push_back(cpu_->RandomBatch(size, 100 * step + batches.size()));
    return batches;
  }
  static TrainOptions OptionsOf(uint64_t step) {
    return {.scale = 0.25 / static_cast<double>(1 + step % 3),
            .dropout_key = 1000 + step};
  }

  std::unique_ptr<ModelInstance<float>> cpu_;
  std::unique_ptr<Subject> queued_;
  std::unique_ptr<Subject> replayed_;
};

TEST_P(ModelGraphsTest, ReplayedPassesGiveTheSameBits) {
  std::vector<float> parameters = cpu_->parameters;
  for (uint64_t round = 0; round < 4; ++round) {
    const bool is_seen = round > 0;
    ExpectSameStep(Batches({6}, 2 * round), OptionsOf(2 * round),
                   is_seen ? 2 : 0);
    // Within the first step, the third micro-batch is of the second's kind.
    ExpectSameStep(Batches({3, 2, 2, 1}, 2 * round + 1),
                   OptionsOf(2 * round + 1), is_seen ? 8 : 2);
    // An update, in place.
    for (float& parameter : parameters) parameter *= 0.9f;
    queued_->SetParameters(parameters);
    replayed_->SetParameters(parameters);
  }
}

TEST_P(ModelGraphsTest, WhatElseTheModelDoesBetweenChangesNothing) {
  for (uint64_t step = 0; step < 3; ++step) {
    ExpectSameStep(Batches({4}, step), OptionsOf(step), step == 0 ? 0 : 2);
    const Batch held_out = cpu_->RandomBatch(5, 900 + step);
    const Prediction want = queued_->model().Predict(held_out);
    const Prediction got = replayed_->model().Predict(held_out);
    EXPECT_EQ(got.loss_sum, want.loss_sum);
    EXPECT_EQ(got.correct, want.correct);
    const std::vector<int32_t> context = {1, 2, 3};
    EXPECT_EQ(replayed_->model().NextTokenLogits(context).ok(),
              queued_->model().NextTokenLogits(context).ok());
  }
}

TEST_P(ModelGraphsTest, GoesOnInOtherArenas) {
  for (uint64_t step = 0; step < 6; ++step) {
    if (step == 3) {
      std::vector<float> parameters = cpu_->parameters;
      std::reverse(parameters.begin(), parameters.end());
      queued_->Bind(parameters);
      replayed_->Bind(parameters);
    }
    ExpectSameStep(Batches({4}, step), OptionsOf(step),
                   step == 0 || step == 3 ? 0 : 2);
  }
}

TEST_P(ModelGraphsTest, ACancelledPassLaunchesNothingAndTheNextIsWhole) {
  ExpectSameStep(Batches({4}, 0), OptionsOf(0), 0);
  ExpectSameStep(Batches({4}, 1), OptionsOf(1), 2);
  CancelToken cancel;
  cancel.Cancel("enough");
  TrainOptions options = OptionsOf(2);
  options.cancel = &cancel;
  const int64_t before = CudaGraph::TotalLaunches();
  replayed_->copies().Begin(nullptr);
  replayed_->model().ForwardBackward(cpu_->RandomBatch(4, 2), options,
                                     replayed_->copies());
  EXPECT_EQ(CudaGraph::TotalLaunches(), before);
  EXPECT_TRUE(replayed_->copies().order().empty());
  EXPECT_TRUE(replayed_->model().AwaitDevice().ok());
  // The generation has other members then, and the graphs were dropped.
  ExpectSameStep(Batches({4}, 3), OptionsOf(3), 0);
  ExpectSameStep(Batches({4}, 4), OptionsOf(4), 2);
}

TEST_P(ModelGraphsTest, MemoryThatMovedIsNotUsed) {
  ExpectSameStep(Batches({4}, 0), OptionsOf(0), 0);
  ExpectSameStep(Batches({4}, 1), OptionsOf(1), 2);
  stream().ExpireGraphs();
  ExpectSameStep(Batches({4}, 2), OptionsOf(2), 0);
  ExpectSameStep(Batches({4}, 3), OptionsOf(3), 2);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelGraphsTest,
                         ::testing::ValuesIn(ModelCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ringmaster::cuda
