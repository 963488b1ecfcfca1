#include "io/import/aten_operators.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace plimsoll::io {
namespace {

class Call {
 public:
  explicit Call(std::string_view target) { call.target = target; }

  Call& in(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides = {},
           std::string_view dtype = "bfloat16") {
    call.inputs.push_back(add(std::move(sizes), std::move(strides), dtype));
    return *this;
  }
  Call& out(std::vector<std::int64_t> sizes, std::string_view dtype = "bfloat16") {
    call.outputs.push_back(add(std::move(sizes), {}, dtype));
    return *this;
  }
  AtenCall call;

 private:
  const TensorValue* add(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides,
                         std::string_view dtype) {
    TensorValue& tensor = tensors_->emplace_back();
    tensor.sizes = std::move(sizes);
    tensor.strides = std::move(strides);
    tensor.dtype = dtype;
    tensor.bytes = find_bytes(tensor.sizes, 16).value();
    return &tensor;
  }
  // Shared by copies, which point into it.
  std::shared_ptr<std::deque<TensorValue>> tensors_ = std::make_shared<std::deque<TensorValue>>();
};

double flops(const Call& call) { return flops_of(call.call); }

TEST(AtenOperators, CountsMatrixProducts) {
  EXPECT_EQ(flops(Call("aten.mm.default").in({2, 3}).in({3, 7}).out({2, 7})), 84);
  EXPECT_EQ(flops(Call("aten.addmm.default").in({7}).in({2, 3}).in({3, 7}).out({2, 7})), 84);
  EXPECT_EQ(flops(Call("aten.bmm.default").in({5, 2, 3}).in({5, 3, 7}).out({5, 2, 7})), 420);
  EXPECT_EQ(flops(Call("aten.baddbmm.default").in({7}).in({5, 2, 3}).in({5, 3, 7}).out({5, 2, 7})),
            420);
  EXPECT_EQ(flops(Call("aten.linear.default").in({5, 2, 3}).in({7, 3}).in({7}).out({5, 2, 7})),
            420);
  EXPECT_EQ(flops(Call("aten.matmul.default").in({5, 2, 3}).in({3, 7}).out({5, 2, 7})), 420);
  EXPECT_EQ(flops(Call("aten.mv.default").in({2, 3}).in({3}).out({2})), 12);
  EXPECT_EQ(flops(Call("aten.dot.default").in({3}).in({3}).out({})), 6);
}

TEST(AtenOperators, CountsGroupedProductsByRows) {
  // 10 rows in 4 groups, each by its own 3 x 7 matrix
  EXPECT_EQ(flops(Call("aten._grouped_mm.default").in({10, 3}).in({4, 3, 7}).in({4}).out({10, 7})),
            2 * 10 * 3 * 7);
  EXPECT_EQ(flops(Call("aten._grouped_mm.default").in({4, 10, 3}).in({4, 3, 7}).out({4, 10, 7})),
            2 * 4 * 10 * 3 * 7);
  // 10 columns in 4 groups: the gradient of the matrices, and products with few columns each
  EXPECT_EQ(flops(Call("aten._grouped_mm.default").in({3, 10}).in({10, 7}).in({4}).out({4, 3, 7})),
            2 * 10 * 3 * 7);
  EXPECT_EQ(flops(Call("aten._grouped_mm.default").in({4, 3, 5}).in({5, 10}).in({4}).out({3, 10})),
            2 * 3 * 5 * 10);
}

TEST(AtenOperators, CountsConvolutions) {
  const double expected = 2.0 * 16 * 25 * 4 * 9;  // output positions, 4 channels a group, 3 x 3
  for (const char* name : {"aten.conv2d.default", "aten.convolution.default"}) {
    EXPECT_EQ(flops(Call(name).in({1, 8, 5, 5}).in({16, 4, 3, 3}).out({1, 16, 5, 5})), expected);
  }
  EXPECT_EQ(
      flops(
          Call("aten.conv_transpose2d.input").in({1, 8, 5, 5}).in({8, 4, 3, 3}).out({1, 4, 7, 7})),
      2.0 * 8 * 25 * 4 * 9);
  Call transposed("aten.convolution.default");
  transposed.in({1, 8, 5, 5}).in({8, 4, 3, 3}).out({1, 4, 7, 7});
  transposed.call.is_transposed = true;
  EXPECT_EQ(flops(transposed), 2.0 * 8 * 25 * 4 * 9);
  // Gradients of input and weight, each one more convolution; that of the bias is a sum.
  EXPECT_EQ(flops(Call("aten.convolution_backward.default")
                      .in({1, 16, 5, 5})
                      .in({1, 8, 5, 5})
                      .in({16, 4, 3, 3})
                      .out({1, 8, 5, 5})
                      .out({16, 4, 3, 3})
                      .out({16})),
            2 * expected);
}

TEST(AtenOperators, CountsAttention) {
  // 2 heads, 5 queries, 7 keys, width 4
  const auto call = [](const char* name) {
    return Call(name).in({1, 2, 5, 4}).in({1, 2, 7, 4}).in({1, 2, 7, 4}).out({1, 2, 5, 4});
  };
  const double expected = 4.0 * 2 * 5 * 7 * 4;
  EXPECT_EQ(flops(call("aten.scaled_dot_product_attention.default")), expected);
  EXPECT_EQ(flops(call("aten._scaled_dot_product_flash_attention_for_cpu.default")), expected);
  EXPECT_EQ(flops(call("aten._scaled_dot_product_efficient_attention.default")), expected);
  // Fewer heads of keys than of queries: the queries' count.
  EXPECT_EQ(flops(Call("aten.scaled_dot_product_attention.default")
                      .in({1, 2, 5, 4})
                      .in({1, 1, 7, 4})
                      .in({1, 1, 7, 4})
                      .out({1, 2, 5, 4})),
            expected);
  // Sequence before heads.
  EXPECT_EQ(flops(Call("aten._flash_attention_forward.default")
                      .in({1, 5, 2, 4})
                      .in({1, 7, 2, 4})
                      .in({1, 7, 2, 4})
                      .out({1, 5, 2, 4})),
            expected);
  EXPECT_EQ(flops(Call("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
                      .in({1, 2, 5, 4})
                      .in({1, 2, 5, 4})
                      .in({1, 2, 7, 4})
                      .in({1, 2, 7, 4})
                      .out({1, 2, 5, 4})),
            10.0 * 2 * 5 * 7 * 4);
}

TEST(AtenOperators, CountsNothingElse) {
  EXPECT_EQ(flops(Call("aten.add.Tensor").in({4}).in({4}).out({4})), 0);
  EXPECT_EQ(flops(Call("mine.mm.default").in({2, 3}).in({3, 7}).out({2, 7})), 0);
  EXPECT_EQ(flops(Call("aten.mm.default").in({2, 3}).out({2, 7})), 0);
  EXPECT_EQ(flops(Call("aten.mm.default")), 0);
  EXPECT_EQ(flops(Call("aten.conv2d.default").in({1, 1}).in({0, 4}).out({1})), 0);
}

TEST(AtenOperators, TellsViews) {
  EXPECT_TRUE(is_view(Call("aten.view.default").in({4}).out({2, 2}).call));
  EXPECT_TRUE(is_view(Call("aten.transpose.int").in({2, 3}).out({3, 2}).call));
  EXPECT_TRUE(is_view(Call("aten.chunk.default").in({4}).out({2}).out({2}).call));
  EXPECT_FALSE(is_view(Call("aten.add.Tensor").in({4}).out({4}).call));
  EXPECT_FALSE(is_view(Call("aten.clone.default").in({4}).out({4}).call));
  EXPECT_FALSE(is_view(Call("aten.arange.default").out({4}).call));
  Call dropout("aten.dropout.default");
  dropout.in({4}).out({4});
  EXPECT_FALSE(is_view(dropout.call));
  dropout.call.is_training = false;
  EXPECT_TRUE(is_view(dropout.call));
  EXPECT_TRUE(is_view(Call("aten.to.dtype").in({4}).out({4}).call));
  EXPECT_FALSE(is_view(Call("aten.to.dtype").in({4}).out({4}, "float32").call));
  EXPECT_TRUE(is_view(Call("aten.contiguous.default").in({2, 3}, {3, 1}).out({2, 3}).call));
  EXPECT_FALSE(is_view(Call("aten.contiguous.default").in({2, 3}, {1, 2}).out({2, 3}).call));
}

// As torch decides, from sizes and strides alone.
TEST(AtenOperators, TellsWhichReshapesCopy) {
  const auto is_free = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides,
                          std::vector<std::int64_t> wanted) {
    return is_view(Call("aten.reshape.default")
                       .in(std::move(sizes), std::move(strides))
                       .out(std::move(wanted))
                       .call);
  };
  EXPECT_TRUE(is_free({2, 3, 4}, {12, 4, 1}, {6, 4}));
  EXPECT_TRUE(is_free({2, 3, 4}, {12, 4, 1}, {24}));
  EXPECT_TRUE(is_free({2, 3, 4}, {4, 8, 1}, {2, 3, 2, 2})) << "a transposed pair that stays apart";
  EXPECT_FALSE(is_free({2, 3, 4}, {4, 8, 1}, {6, 4})) << "heads back into the width";
  EXPECT_TRUE(is_free({2, 1, 4}, {4, 99, 1}, {8})) << "a size of 1 has no stride";
  EXPECT_FALSE(is_free({3, 4}, {1, 3}, {12}));
  EXPECT_TRUE(is_free({3, 4}, {1, 3}, {3, 1, 4}));
  EXPECT_FALSE(is_free({2, 3}, {0, 1}, {6})) << "expanded";
  EXPECT_TRUE(is_free({2, 0}, {1, 7}, {0, 5}));
}

TEST(AtenOperators, CountsBytesMoved) {
  EXPECT_EQ(bytes_moved_by(Call("aten.add.Tensor").in({4}).in({4}).out({4}).call), 3 * 8);
  Call square("aten.mul.Tensor");
  square.in({4}).out({4});
  square.call.inputs.push_back(square.call.inputs[0]);
  EXPECT_EQ(bytes_moved_by(square.call), 2 * 8) << "a tensor read twice moves once";
  EXPECT_EQ(bytes_moved_by(Call("aten.embedding.default").in({100, 8}).in({3}).out({3, 8}).call),
            2 * 48 + 6);
  EXPECT_EQ(bytes_moved_by(Call("aten.index.Tensor").in({100}).in({3}).out({3}).call), 2 * 6 + 6);
}

}  // namespace
}  // namespace plimsoll::io
