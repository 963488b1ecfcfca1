#include "balance/contents/placement_contents.h"

#include <algorithm>

#include "core/check.h"

namespace plimsoll::balance {
namespace {

bool is_everywhere(const ContentModel& model, const UnitChoice& choice) {
  return choice.spread == Spread::kUniform ||
         (choice.spread == Spread::kHost && model.width == model.num_ranks);
}

void place_everywhere(const ContentModel& model, int unit, int choice, UnitPlacements& result) {
  const UnitChoice& c = model.problem->units[unit].choices[choice];
  result.units[unit].choice = choice;
  if (c.spread == Spread::kHost) {
    result.units[unit].slots.assign(static_cast<std::size_t>(c.num_blocks), 0);
  }
}

}  // namespace

Contents::Contents(const ContentModel& model)
    : model_(&model),
      uniform_(model.forced_load),
      uniform_bytes_(model.forced_bytes),
      load_(static_cast<std::size_t>(model.num_ranks), 0),
      bytes_(load_.size()),
      on_rank_(load_.size()),
      on_host_(static_cast<std::size_t>(model.num_hosts)),
      parts_(model.items.size(), 0),
      started_(model.items.size(), 0),
      num_uniform_(model.classes.size(), 0) {
  for (const ContentClass& c : model.classes) left_.push_back(c.count());
}

std::optional<Contents> Contents::from(const ContentModel& model,
                                       const UnitPlacements& placements) {
  Contents result(model);
  for (std::size_t c = 0; c < model.classes.size(); ++c) {
    const ContentClass& of = model.classes[c];
    int num_uniform = 0;
    for (std::size_t u = 0; u < of.units.size(); ++u) {
      const int unit = of.units[u];
      const UnitPlacement& placement = placements.units[unit];
      if (is_everywhere(model, model.problem->units[unit].choices[placement.choice])) {
        ++num_uniform;
        continue;
      }
      const auto item = std::find_if(of.items.begin(), of.items.end(), [&](int i) {
        return of.item_choice[u][static_cast<std::size_t>(model.items[i].number)] ==
               placement.choice;
      });
      if (item == of.items.end()) return std::nullopt;
      for (const int place : placement.slots) {
        if (!result.fits(*item, place)) return std::nullopt;
        result.put(*item, place);
      }
    }
    if (num_uniform > of.num_uniform_at_most ||
        !result.set_uniform(static_cast<int>(c), num_uniform)) {
      return std::nullopt;
    }
  }
  if (!result.is_complete()) return std::nullopt;
  return result;
}

UnitPlacements Contents::placements() const {
  PLIMSOLL_CHECK(is_complete(), "every unit has its parts");
  UnitPlacements result;
  result.units.resize(model_->problem->units.size());
  for (const auto& [unit, choice] : model_->forced) {
    place_everywhere(*model_, unit, choice, result);
  }
  std::vector<std::vector<int>> places(model_->items.size());
  for (std::size_t host = 0; host < on_host_.size(); ++host) {
    for (const int item : on_host_[host]) places[item].push_back(static_cast<int>(host));
  }
  for (std::size_t rank = 0; rank < on_rank_.size(); ++rank) {
    for (const int item : on_rank_[rank]) places[item].push_back(static_cast<int>(rank));
  }
  for (std::size_t c = 0; c < model_->classes.size(); ++c) {
    const ContentClass& of = model_->classes[c];
    auto next = static_cast<std::size_t>(num_uniform_[c]);
    for (std::size_t i = 0; i < next; ++i) {
      place_everywhere(*model_, of.units[i], of.uniform_choice[i], result);
    }
    for (const int item : of.items) {
      const auto n = static_cast<std::size_t>(model_->items[item].num_parts);
      for (std::size_t first = 0; first + n <= places[item].size(); first += n) {
        UnitPlacement& placement = result.units[of.units[next]];
        placement.choice =
            of.item_choice[next][static_cast<std::size_t>(model_->items[item].number)];
        ++next;
        const auto begin = places[item].begin() + static_cast<std::ptrdiff_t>(first);
        placement.slots.assign(begin, begin + static_cast<std::ptrdiff_t>(n));
      }
    }
  }
  return result;
}

bool Contents::is_complete() const {
  if (std::any_of(left_.begin(), left_.end(), [](int left) { return left > 0; })) return false;
  for (std::size_t item = 0; item < parts_.size(); ++item) {
    if (owed(static_cast<int>(item)) > 0) return false;
  }
  return true;
}

double Contents::largest_load() const { return *std::max_element(load_.begin(), load_.end()); }

Bytes Contents::free_bytes(int resource) const {
  Bytes sum = model_->num_ranks * (model_->cap[resource] - uniform_bytes_[resource]);
  for (const Amounts& bytes : bytes_) sum -= bytes[resource];
  return sum;
}

bool Contents::fits(int item, int place) const {
  const ContentItem& i = model_->items[item];
  const int first = i.is_block ? place * model_->width : place;
  const int end = i.is_block ? first + model_->width : first + 1;
  for (int resource = 0; resource < model_->problem->num_resources(); ++resource) {
    if (i.bytes[resource] == 0) continue;
    const Bytes room = model_->cap[resource] - uniform_bytes_[resource] - i.bytes[resource];
    for (int rank = first; rank < end; ++rank) {
      if (bytes_[rank][resource] > room) return false;
    }
  }
  return true;
}

void Contents::add(int item, int place, int sign) {
  const ContentItem& i = model_->items[item];
  const int first = i.is_block ? place * model_->width : place;
  const int end = i.is_block ? first + model_->width : first + 1;
  for (int rank = first; rank < end; ++rank) {
    load_[rank] += sign * i.load;
    bytes_[rank].add(i.bytes, sign);
  }
}

void Contents::put(int item, int place) {
  PLIMSOLL_DCHECK(open_parts(item) > 0, "a part of the item is open");
  const ContentItem& i = model_->items[item];
  if (owed(item) == 0) {
    --left_[i.class_index];
    ++started_[item];
  }
  ++parts_[item];
  add(item, place, 1);
  (i.is_block ? on_host_ : on_rank_)[place].push_back(item);
}

void Contents::take(int item, int place) {
  const ContentItem& i = model_->items[item];
  std::vector<int>& list = (i.is_block ? on_host_ : on_rank_)[place];
  list.erase(std::find(list.begin(), list.end(), item));
  add(item, place, -1);
  --parts_[item];
  if (owed(item) >= i.num_parts) {
    --started_[item];
    ++left_[i.class_index];
  }
}

void Contents::clear_rank(int rank) {
  while (!on_rank_[rank].empty()) take(on_rank_[rank].back(), rank);
}

void Contents::clear_host(int host) {
  while (!on_host_[host].empty()) take(on_host_[host].back(), host);
}

bool Contents::has_uniform_room(const Amounts& more) const {
  for (int resource = 0; resource < model_->problem->num_resources(); ++resource) {
    if (more[resource] <= 0) continue;
    const Bytes room = model_->cap[resource] - uniform_bytes_[resource] - more[resource];
    if (std::any_of(bytes_.begin(), bytes_.end(),
                    [&](const Amounts& bytes) { return bytes[resource] > room; })) {
      return false;
    }
  }
  return true;
}

bool Contents::set_uniform(int class_index, int count) {
  const ContentClass& c = model_->classes[class_index];
  const int now = num_uniform_[class_index];
  Amounts more = c.uniform_bytes[count];
  more.add(c.uniform_bytes[now], -1);
  if (!has_uniform_room(more)) return false;
  uniform_ += c.uniform_load[count] - c.uniform_load[now];
  uniform_bytes_.add(more, 1);
  num_uniform_[class_index] = count;
  left_[class_index] -= count - now;
  return true;
}

void Contents::free_uniform() {
  for (std::size_t c = 0; c < num_uniform_.size(); ++c) set_uniform(static_cast<int>(c), 0);
  uniform_ = model_->forced_load;
}

void Contents::give_up_owed(int item) {
  std::vector<std::vector<int>>& lists = model_->items[item].is_block ? on_host_ : on_rank_;
  for (int rank = static_cast<int>(lists.size()); rank-- > 0;) {
    while (owed(item) > 0 &&
           std::find(lists[rank].begin(), lists[rank].end(), item) != lists[rank].end()) {
      take(item, rank);
    }
  }
}

}  // namespace plimsoll::balance
