#include "core/python_set.h"

#include "core/check.h"

namespace plimsoll {
namespace {

constexpr int kUnused = -1;
constexpr int kRemoved = -2;
constexpr std::size_t kLinearProbes = 9;
constexpr std::size_t kPerturbShift = 5;

std::size_t grown(std::size_t used) { return used > 50000 ? used * 2 : used * 4; }

}  // namespace

PythonIntSet::PythonIntSet(std::span<const int> keys) {
  for (const int key : keys) add(key);
}

std::size_t PythonIntSet::find_slot(int key) const {
  const std::size_t mask = table_.size() - 1;
  auto perturb = static_cast<std::size_t>(key);
  std::size_t at = perturb & mask;
  for (;;) {
    const std::size_t last = at + kLinearProbes <= mask ? at + kLinearProbes : at;
    for (std::size_t slot = at; slot <= last; ++slot) {
      if (table_[slot] == kUnused || table_[slot] == key) return slot;
    }
    perturb >>= kPerturbShift;
    at = (at * 5 + 1 + perturb) & mask;
  }
}

void PythonIntSet::add(int key) {
  PLIMSOLL_CHECK(key >= 0, "the set holds ints from 0 on");
  const std::size_t slot = find_slot(key);
  if (table_[slot] == key) return;
  table_[slot] = key;
  ++fill_;
  ++used_;
  if (fill_ * 5 >= (table_.size() - 1) * 3) resize(grown(used_));
}

void PythonIntSet::resize(std::size_t min_used) {
  std::size_t size = 8;
  while (size <= min_used) size <<= 1;
  const std::vector<int> present = keys();
  table_.assign(size, kUnused);
  for (const int key : present) table_[find_slot(key)] = key;
  fill_ = used_;
}

void PythonIntSet::update(const PythonIntSet& other) {
  if (&other == this || other.used_ == 0) return;
  if ((fill_ + other.used_) * 5 >= (table_.size() - 1) * 3) resize((used_ + other.used_) * 2);
  if (fill_ > 0) {
    for (const int key : other.keys()) add(key);
    return;
  }
  if (table_.size() == other.table_.size() && other.fill_ == other.used_) {
    table_ = other.table_;
  } else {
    for (const int key : other.keys()) table_[find_slot(key)] = key;
  }
  fill_ = used_ = other.used_;
}

void PythonIntSet::discard(int key) {
  const std::size_t slot = find_slot(key);
  if (table_[slot] != key) return;
  table_[slot] = kRemoved;
  --used_;
}

PythonIntSet PythonIntSet::without(const PythonIntSet& other) const {
  PythonIntSet result;
  if (used_ / 4 <= other.used_) {
    for (const int key : keys()) {
      if (!other.contains(key)) result.add(key);
    }
    return result;
  }
  result.update(*this);
  for (const int key : other.keys()) result.discard(key);
  if (result.fill_ - result.used_ > (result.table_.size() - 1) / 4) {
    result.resize(grown(result.used_));
  }
  return result;
}

bool PythonIntSet::contains(int key) const { return key >= 0 && table_[find_slot(key)] == key; }

std::vector<int> PythonIntSet::keys() const {
  std::vector<int> keys;
  for (const int key : table_) {
    if (key >= 0) keys.push_back(key);
  }
  return keys;
}

}  // namespace plimsoll
