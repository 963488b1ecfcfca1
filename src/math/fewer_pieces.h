// Piecewise-linear functions of fewer pieces above and below a given one, for curves that are too
// long to work with or to print.
//
// Method. Pieces that lie together, within one of equal parts of the width and of the height, are
// one block. From above the function keeps the start of each block, what of it lies nearest to the
// lower convex hull, and the hull's vertices: a curve that long chains of minima and convolutions
// are made of stays exact where prices on bytes have their optimum, so errors hardly add up. From
// below a block is flat at its end. Cost. Linear in the pieces.
#pragma once

#include "plimsoll/math/piecewise_linear.h"

namespace plimsoll::math {

// Of a function that ends flat and has more than `count` pieces: one of about so many, nowhere
// below it. Its pieces begin at the vertices of the lower convex hull and, in blocks of equal width
// or height, at the start and where the function is nearest to the hull. count >= 2
void raise_to_fewer(PiecewiseLinear& f, std::size_t count);

// The same with about so many steps, nowhere above it.
void lower_to_fewer(PiecewiseLinear& f, std::size_t count);

// Pointwise maximum where both are finite, and the finite one elsewhere.
PiecewiseLinear upper_envelope(PiecewiseLinear a, PiecewiseLinear b);

}  // namespace plimsoll::math
