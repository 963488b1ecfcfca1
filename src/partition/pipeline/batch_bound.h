// What a batch through replicated stages takes at least, whatever stands next to what.
//
// Problem. Stages in a line share devices and memory. A stage on k devices takes t for one
// microbatch; a batch takes sum t + weight * max t. How little can that be?
// Method. Each item (an operator, a group) takes one of its options, of its stage's k devices: what
// it adds to the stage's time, c, and what it holds on all k together, b. The order forgotten, all
// devices still do no more than K max t of device time and hold no more than B bytes:
//   sum of k c <= K max t,      sum of b <= B
// At prices p and q for these the items are independent (Lagrange), and for any p, q >= 0
//   sum of t >= sum over items min over options (c (1 + p k) + q b)  -  p K limit  -  q B
// where no stage exceeds the limit. With p K <= weight, and no slowest stage below `slowest`,
//   batch >= sum over items min over options (c (1 + p k) + q b)  +  (weight - p K) slowest  -  q
//   B.
// The right sides are concave in the prices; tangents at two sides of the top find it.
// Cost. Some twenty looks at all options for a bound; squared where bytes bind. Promises. Every
// price gives a bound that holds (except for rounding, 1e-9 relative); the best prices to 1e-7. Not
// promised. Stages in a line and whole devices for each are forgotten, and what stages move.
// Source: docs/mathematics/placements.md#prices-of-devices-and-bytes.
#pragma once

#include <cstddef>
#include <vector>

namespace plimsoll::partition {

// Stages on so many devices of a class.
struct StageKind {
  int device_class = 0;  // index into BatchItems::class_devices
  int devices = 1;       // >= 1
  double bytes = 0;      // that they hold together; infinite: no limit
};

struct BatchOption {
  int kind = 0;        // of its stage, an index into BatchItems::kinds
  double devices = 1;  // >= 0, of its stage; slower ones count for less
  double time_ms = 0;  // >= 0, that it adds to the stage's time
  double bytes = 0;    // >= 0, that it holds on all of them together
};

struct BatchItems {
  std::vector<BatchOption> options;   // those of one item after those of another
  std::vector<std::size_t> first{0};  // [num_items + 1]; every item has an option
  std::vector<StageKind> kinds;
  std::vector<int> class_devices;  // [classes] that there are
  double devices = 0;              // > 0, of all stages together
  double bytes = 0;                // that all devices hold; infinite: no limit
  std::size_t num_items() const { return first.size() - 1; }
};

struct BatchPrices {
  double device_ms = 0;  // of a ms of one device: p
  double byte = 0;       // q
  bool operator==(const BatchPrices&) const = default;
};

class BatchBound {
 public:
  explicit BatchBound(BatchItems items);

  // Of sum t + weight * max t. Infinite where the bytes cannot do. Precondition: both >= 0.
  double batch(double weight, double slowest) const;
  // Of sum t where all t <= limit; infinite where there is no such pipeline.
  double sum_within(double limit) const;
  // The prices at which sum_within() has its value.
  BatchPrices prices_within(double limit) const;
  // [num_items] what each takes at least, at these prices.
  std::vector<double> at(const BatchPrices& prices) const;
  const BatchItems& items() const { return items_; }

 private:
  struct Point;
  struct Terms;
  Point look(const BatchPrices& prices, const Terms& terms) const;
  Point raise_time(double byte_price, const Terms& terms) const;
  Point raise(const Terms& terms) const;

  BatchItems items_;
  double least_device_ms_ = 0;  // of all items
  double least_bytes_ = 0;
};

}  // namespace plimsoll::partition
