#include "partition/fx/name_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::partition {
namespace {

// What torch.fx of torch 2.13 names nodes that wish for these names, one after the other.
TEST(NameScope, NamesAsTorchDoes) {
  const std::vector<std::pair<const char*, const char*>> wishes = {
      {"getitem_1", "getitem_1"},
      {"getitem", "getitem"},
      {"getitem", "getitem_2"},
      {"w_3", "w_3"},
      {"w_3", "w_4"},
      {"w", "w"},
      {"w", "w_5"},
      {"w_5", "w_6"},
      {"w_5", "w_7"},
      {"ALLCaps", "allcaps"},
      {"aBC", "a_bc"},
      {"a__b", "a__b"},
      {"*args", "_args"},
      {"__call__", "call"},
      {"_0", "_0"},
      {"__0", "__0"},
      {"x.-y", "x_y"},
      {"max", "max_1"},
      {"max", "max_2"},
      {"max_1", "max_3"},
      {"lambda", "lambda_1"},
      {"in_2", "in_2"},
      {"a_007", "a_007"},
      {"a_007", "a_8"},
      {"\xc3\xa9", "_"},
      {"2d", "_2d"},
      {"layers.0.batchNorm", "layers_0_batch_norm"}};
  NameScope scope;
  for (const auto& [wish, name] : wishes) EXPECT_EQ(scope.take(wish), name) << wish;
}

TEST(NameScope, FindsANameForNothingAndForLongNumbers) {
  NameScope scope;
  EXPECT_EQ(scope.take(""), "_unnamed");
  EXPECT_EQ(scope.take(""), "_unnamed_1");
  const std::string name = "n_99999999999999999999999999";
  EXPECT_EQ(scope.take(name), name);
  EXPECT_NE(scope.take(name), name);
}

}  // namespace
}  // namespace plimsoll::partition
