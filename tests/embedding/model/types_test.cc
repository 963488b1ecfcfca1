#include "plimsoll/embedding/types.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::embedding {
namespace {

TEST(ComputeKernel, IsFoundByItsName) {
  for (const std::string& name : enum_names<ComputeKernel>()) {
    SCOPED_TRACE(name);
    const auto found = find_enum<ComputeKernel>(name);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(to_string(*found), name);
  }
  EXPECT_EQ(find_enum<ComputeKernel>("fuse"), std::nullopt);
  EXPECT_EQ(find_enum<ComputeKernel>(""), std::nullopt);
}

TEST(ComputeKernel, IsFoundByTheNameThatEarlyReleasesGaveIt) {
  EXPECT_EQ(find_enum<ComputeKernel>("batched_dense"), ComputeKernel::kDense);
  EXPECT_EQ(find_enum<ComputeKernel>("batched_fused"), ComputeKernel::kFused);
  EXPECT_EQ(find_enum<ComputeKernel>("batched_fused_uvm_caching"), ComputeKernel::kFusedUvmCaching);
  EXPECT_EQ(find_enum<ComputeKernel>("batched_quant"), ComputeKernel::kQuant);
  EXPECT_EQ(find_enum<ComputeKernel>("batched_quant_uvm_caching"), ComputeKernel::kQuantUvmCaching);
}

TEST(ComputeKernel, WasNeverCalledBatchedWhereItCameLater) {
  for (const char* name : {"batched_key_value", "batched_fused_triton", "batched_",
                           "batched_batched_fused", "Batched_fused"}) {
    EXPECT_EQ(find_enum<ComputeKernel>(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace plimsoll::embedding
