// A point of a frontier as documents show it.
#pragma once

#include "io/documents/names.h"
#include "io/json/json_reader.h"
#include "plimsoll/core/units.h"
#include "plimsoll/math/frontier.h"

namespace plimsoll::io {

// Sums over any model stay far from 63 bits.
inline constexpr Bytes kMaxModuleBytes = Bytes{1} << 50;
inline constexpr double kMaxMilliseconds = 1e12;

inline constexpr Rule kModuleBytes{
    .form = Rule::Form::kBytes, .min = 0, .max = static_cast<double>(kMaxModuleBytes)};
inline constexpr Rule kMilliseconds{.min = 0, .max = kMaxMilliseconds};
inline constexpr Rule kAtMostZero{.max = 0};

template <class Fields, SameAs<math::FrontierPoint> T>
void describe(Fields& fields, T& point) {
  fields.required("bytes", point.bytes, kModuleBytes);
  fields.required("ms", point.ms, kMilliseconds);
  fields.stated("ms_per_byte", point.slope, kAtMostZero);
  fields.stated("is_exact", point.is_exact);
}

}  // namespace plimsoll::io
