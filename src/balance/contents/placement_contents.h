// A placement as contents: which pieces every rank holds and which blocks every host, before it is
// said whose they are.
//
// Of every item (content_model.h) it counts how many parts stand somewhere, of every class how many
// units are uniform and how many stand nowhere yet. A unit whose parts stand only in part is owed
// the rest. Bytes are exact except for blocks and uniform choices, whose largest piece counts for
// all. Source: docs/mathematics/balanced-sharding.md#dives-by-contents.
#pragma once

#include <optional>
#include <vector>

#include "balance/contents/content_model.h"

namespace plimsoll::balance {

class Contents {
 public:
  explicit Contents(const ContentModel& model);

  // Of a placement whose choices are all the model's; nothing otherwise.
  static std::optional<Contents> from(const ContentModel& model, const UnitPlacements& placements);
  // Precondition: is_complete().
  UnitPlacements placements() const;

  bool is_complete() const;
  double uniform_load() const { return uniform_; }
  double load(int rank) const { return load_[rank]; }  // without uniform loads
  double largest_load() const;
  double objective() const { return uniform_ + largest_load(); }
  Bytes free_bytes(int resource) const;  // of all ranks together
  int left(int class_index) const { return left_[class_index]; }
  int num_uniform(int class_index) const { return num_uniform_[class_index]; }
  int owed(int item) const { return started_[item] * model_->items[item].num_parts - parts_[item]; }
  int started(int item) const { return started_[item]; }
  // Parts of the item that may still be put: owed ones and those of units left.
  int open_parts(int item) const {
    const ContentItem& i = model_->items[item];
    return owed(item) + left_[i.class_index] * i.num_parts;
  }
  const std::vector<int>& on_rank(int rank) const { return on_rank_[rank]; }
  const std::vector<int>& on_host(int host) const { return on_host_[host]; }
  const ContentModel& model() const { return *model_; }

  bool fits(int item, int place) const;  // bytes alone
  // Precondition: open_parts(item) > 0.
  void put(int item, int place);
  void take(int item, int place);  // away; units none of whose parts is left are free again
  void clear_rank(int rank);
  void clear_host(int host);  // blocks alone
  // Changes the number of uniform units of a class; those gained come from the units left.
  // False, and no change, where their bytes do not fit.
  bool set_uniform(int class_index, int count);
  void free_uniform();  // all of them
  // Every unit of the item that is owed parts gives up those that stand.
  void give_up_owed(int item);

 private:
  bool has_uniform_room(const Amounts& more) const;
  void add(int item, int place, int sign);

  const ContentModel* model_;
  double uniform_ = 0;
  Amounts uniform_bytes_{};
  std::vector<double> load_;    // [ranks]
  std::vector<Amounts> bytes_;  // [ranks] without uniform bytes
  std::vector<std::vector<int>> on_rank_, on_host_;
  std::vector<int> parts_, started_;     // [items]
  std::vector<int> num_uniform_, left_;  // [classes]
};

}  // namespace plimsoll::balance
