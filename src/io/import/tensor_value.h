// What a model file says of a tensor.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "plimsoll/core/units.h"

namespace plimsoll::io {

struct TensorValue {
  std::vector<std::int64_t> sizes;    // >= 0
  std::vector<std::int64_t> strides;  // [num_dims], or empty where not known
  std::string_view dtype;             // torch's name; empty: not known
  Bytes bytes = 0;

  int num_dims() const { return static_cast<int>(sizes.size()); }
  // From the front, or (negative) from the back; 1 beyond either end.
  double size(int dim) const {
    if (dim < 0) dim += num_dims();
    return dim < 0 || dim >= num_dims() ? 1.0
                                        : static_cast<double>(sizes[static_cast<std::size_t>(dim)]);
  }
  double num_elements() const {
    double product = 1;
    for (const std::int64_t s : sizes) product *= static_cast<double>(s);
    return product;
  }
};

struct DtypeInfo {
  std::string_view name;  // torch's: "float32"
  int bits = 8;
  bool is_floating = false;
};

// Bytes of that many elements, whole bytes; nothing where they exceed 62 bits.
inline std::optional<Bytes> find_bytes(const std::vector<std::int64_t>& sizes, int bits) {
  Bytes product = 1;
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) return {};
  }
  Bytes total = 0;
  if (__builtin_mul_overflow(product, Bytes{bits}, &total)) return {};
  return total / 8 + (total % 8 != 0 ? 1 : 0);
}

// The sum, or the largest number of bytes where it does not fit: too many for any graph.
inline Bytes add_bytes(Bytes a, Bytes b) {
  Bytes sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<Bytes>::max() : sum;
}

}  // namespace plimsoll::io
