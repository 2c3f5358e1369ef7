#include "magis/graph/type.h"

#include <gtest/gtest.h>

#include "magis/base/units.h"

namespace magis {
namespace {

Type make(Shape shape, Strides strides, int64_t offset = 0) {
  Type type{.shape = std::move(shape), .strides = std::move(strides), .offset = offset};
  type.storage = minimal_storage(type);
  return type;
}

TEST(Type, DTypesReadBack) {
  Bytes sum = 0;
  for (int i = 0; i <= static_cast<int>(DType::f8e5m2); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_text(dtype)), dtype);
    sum += element_size(dtype);
  }
  // f64 f32 f16 bf16 + i64 i32 i16 i8 + u8 u16 u32 u64 + bool + c64 c128 + two of one byte
  EXPECT_EQ(sum, 8 + 4 + 2 + 2 + 8 + 4 + 2 + 1 + 1 + 2 + 4 + 8 + 1 + 8 + 16 + 1 + 1);
  EXPECT_EQ(parse_dtype("float32"), std::nullopt);
}

TEST(Type, MinimalStorageEndsBehindTheLastElement) {
  EXPECT_EQ(minimal_storage(make({4, 6}, {6, 1})), 96);
  EXPECT_EQ(minimal_storage(make({}, {}, 3)), 16);
  // Elements 5 + 3 * 8 + 2 * 2 = 33 is the last.
  EXPECT_EQ(minimal_storage(make({4, 3}, {8, 2}, 5)), 34 * 4);
  EXPECT_EQ(minimal_storage(make({4, 3}, {0, 0})), 4);  // expanded
  EXPECT_EQ(minimal_storage(make({4, 0}, {1, 1}, 9)), 0);
}

TEST(Type, DenseMeansEveryAddressOnce) {
  EXPECT_TRUE(is_dense(make({4, 6}, {6, 1})));
  EXPECT_TRUE(is_dense(make({4, 6}, {1, 4})));
  EXPECT_TRUE(is_dense(make({2, 1, 3}, {3, 77, 1})));
  EXPECT_TRUE(is_dense(make({0, 3}, {9, 9})));
  EXPECT_FALSE(is_dense(make({4, 6}, {8, 1})));  // holes
  EXPECT_FALSE(is_dense(make({4, 6}, {0, 1})));  // expanded
  EXPECT_FALSE(is_dense(make({4, 6}, {1, 1})));  // overlapping
  EXPECT_FALSE(is_dense(make({4}, {2})));
}

TEST(Type, TextSaysOnlyWhatCannotBeInferred) {
  EXPECT_EQ(to_text(make({4, 6}, {6, 1})), "f32[4,6]");
  EXPECT_EQ(to_text(make({}, {})), "f32[]");
  EXPECT_EQ(to_text(make({4, 6}, {1, 4}, 2)), "f32[4,6]{1,4}+2");
  Type type = make({4, 6}, {6, 1});
  type.storage = 100;
  EXPECT_EQ(to_text(type), "f32[4,6]/100");
  EXPECT_EQ(to_text(Type{.defined = false}), "none");
}

TEST(Units, BytesForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1_KiB), "1.00 KiB");
  EXPECT_EQ(format_bytes(1_GiB + 512_MiB), "1.50 GiB");
  EXPECT_EQ(format_bytes(1_MiB - 1), "1.00 MiB");  // not 1024.00 KiB
  EXPECT_EQ(format_bytes(-3_MiB), "-3.00 MiB");
}

}  // namespace
}  // namespace magis
