// Sets of whole numbers that are walked in the order in which CPython walks its own.
//
// Problem. A reference that walks a set of ints gets them in the order of its hash table; where it
// then sorts by a key with ties, or sums doubles, its answer depends on that order.
// Method. CPython's table, step by step: open addressing, nine neighbours before the next jump,
// growth to four times what is used where three fifths are filled, and its ways to copy, merge and
// subtract, each of which leaves a table of another size. An int's hash is itself.
// Promises. keys() is list(s) of the set that the same operations make in CPython 3.7 to 3.13.
// Source: https://github.com/python/cpython/blob/v3.11.7/Objects/setobject.c
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace plimsoll {

// Of ints from 0 on.
class PythonIntSet {
 public:
  PythonIntSet() = default;
  // set(list)
  explicit PythonIntSet(std::span<const int> keys);

  void add(int key);
  // s |= other
  void update(const PythonIntSet& other);
  // s - other
  PythonIntSet without(const PythonIntSet& other) const;

  bool contains(int key) const;
  std::size_t size() const { return used_; }
  std::vector<int> keys() const;  // in order

 private:
  std::size_t find_slot(int key) const;  // where it is, or would be put
  void resize(std::size_t min_used);
  void discard(int key);

  std::vector<int> table_ = std::vector<int>(8, -1);  // a power of two; see the source
  std::size_t fill_ = 0;                              // slots in use, or once in use
  std::size_t used_ = 0;
};

}  // namespace plimsoll
