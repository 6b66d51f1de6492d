#include "common/tensor/shape.h"

#include "common/tensor/tensor_view.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(ShapeTest, ScalarHasOneElement) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().num_elems(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(ShapeTest, CountsTheProductOfItsDimensions) {
  const Shape shape = {256, 32, 3};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.dim(1), 32);
  EXPECT_EQ(shape.num_elems(), 256 * 32 * 3);
  EXPECT_EQ(shape.ToString(), "[256,32,3]");
  EXPECT_EQ((Shape{4, 0}).num_elems(), 0);
}

TEST(ShapeTest, IsEqualOnlyToTheSameDimensions) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 0}));
}

TEST(TensorViewTest, SpansAllElementsOfItsShape) {
  float storage[6] = {0, 1, 2, 3, 4, 5};
  const TensorView<float> view = {storage, {2, 3}};
  ASSERT_EQ(view.elems().size(), 6);
  EXPECT_EQ(view.elems()[5], 5);
}

}  // namespace
}  // namespace ringmaster
