#include "balance/barriers/barrier_model.h"

#include <algorithm>
#include <cstddef>

#include "plimsoll/core/checked.h"

namespace plimsoll::balance {
namespace {

bool is_for_contents(const PlacementProblem& problem) {
  return problem.num_rank_classes == 1 && problem.num_ranks % problem.ranks_per_host == 0 &&
         problem.apart.empty() &&
         std::all_of(problem.caps.begin(), problem.caps.end(),
                     [&](const Amounts& cap) { return cap == problem.caps.front(); }) &&
         std::all_of(problem.units.begin(), problem.units.end(),
                     [](const Unit& unit) { return unit.allowed_ranks.empty(); });
}

class ModelMaker {
 public:
  ModelMaker(const PlacementProblem& problem, std::uint64_t forbidden)
      : problem_(problem), forbidden_(forbidden) {
    model_.num_barriers = problem.num_barriers;
    model_.num_ranks = problem.num_ranks;
    model_.width = problem.ranks_per_host;
    model_.cap = problem.caps.front();
  }

  std::optional<BarrierModel> make() {
    if (!find_classes()) return std::nullopt;
    for (std::size_t c = 0; c < model_.classes.size(); ++c) {
      const Unit& unit = problem_.units[model_.classes[c].units.front()];
      for (std::size_t choice = 0; choice < unit.choices.size(); ++choice) {
        add(static_cast<int>(c), static_cast<int>(choice), unit.choices[choice]);
      }
    }
    model_.has_blocks = std::any_of(model_.items.begin(), model_.items.end(),
                                    [](const BarrierItem& item) { return item.is_block; });
    find_rows();
    return std::move(model_);
  }

 private:
  bool find_classes() {
    for (int u = 0; u < problem_.num_units(); ++u) {
      const auto known =
          std::find_if(model_.classes.begin(), model_.classes.end(), [&](const BarrierClass& c) {
            return problem_.units[c.units.front()].choices == problem_.units[u].choices;
          });
      if (known != model_.classes.end()) {
        known->units.push_back(u);
      } else {
        if (std::ssize(model_.classes) == kMaxClassesOfBoxes) return false;
        model_.classes.push_back({{u}});
      }
    }
    return true;
  }

  bool fits(const Amounts& bytes) const {
    for (int r = 0; r < problem_.num_resources(); ++r) {
      if (!problem_.resources[r].is_pooled && bytes[r] > model_.cap[r]) return false;
    }
    return true;
  }

  bool is_forbidden(const UnitChoice& choice) const {
    return std::any_of(choice.causes.begin(), choice.causes.end(),
                       [&](int cause) { return cause < 64 && (forbidden_ >> cause & 1) != 0; });
  }

  // The least load of the runs at every barrier.
  std::vector<double> least_load(const UnitChoice& choice) const {
    std::vector<double> least = choice.runs.front().load;
    for (const PieceRun& run : choice.runs) {
      for (std::size_t b = 0; b < least.size(); ++b) least[b] = std::min(least[b], run.load[b]);
    }
    return least;
  }

  static Amounts all_bytes(const UnitChoice& choice) {
    Amounts all{};
    for (const PieceRun& run : choice.runs) all.add(run.bytes, run.count);
    return all;
  }

  static Amounts least_bytes(const UnitChoice& choice) {
    Amounts least = choice.runs.front().bytes;
    for (const PieceRun& run : choice.runs) {
      for (std::size_t r = 0; r < least.num_set(); ++r) least[r] = std::min(least[r], run.bytes[r]);
    }
    return least;
  }

  static Amounts largest_bytes(const UnitChoice& choice) {
    Amounts largest{};
    for (const PieceRun& run : choice.runs) largest.raise_to(run.bytes);
    return largest;
  }

  void add(int class_index, int number, const UnitChoice& choice) {
    if (is_forbidden(choice) || !fits(largest_bytes(choice))) return;
    const auto count = static_cast<std::int64_t>(model_.classes[class_index].units.size());
    if (choice.spread == Spread::kUniform ||
        (choice.spread == Spread::kHost && model_.num_hosts() == 1)) {
      const std::int64_t times = choice.spread == Spread::kHost ? choice.num_blocks : 1;
      BarrierStep step{class_index, number, least_load(choice)};
      if (choice.spread == Spread::kHost) step.blocks = times;
      for (double& load : step.load) step.cost += load *= static_cast<double>(times);
      step.bytes.add(largest_bytes(choice), times);
      step.least_bytes.add(least_bytes(choice), times);
      step.all_bytes.add(all_bytes(choice), times);
      model_.steps.push_back(std::move(step));
    } else if (choice.spread == Spread::kHost) {
      model_.items.push_back({class_index, number, true, choice.num_blocks,
                              count * choice.num_blocks, least_load(choice), least_bytes(choice),
                              all_bytes(choice)});
    } else {
      std::int64_t parts = 0;
      for (const PieceRun& run : choice.runs) parts += run.count;
      for (const PieceRun& run : choice.runs) {
        model_.items.push_back(
            {class_index, number, false, parts, count * run.count, run.load, run.bytes, run.bytes});
      }
    }
  }

  void find_rows() {
    for (int r = 0; r < problem_.num_resources(); ++r) {
      double most = 0;
      for (std::size_t c = 0; c < model_.classes.size(); ++c) {
        double of_unit = 0;
        for (const BarrierItem& item : model_.items) {
          if (item.class_index != static_cast<int>(c)) continue;
          of_unit = std::max(
              of_unit, static_cast<double>(item.all_bytes[r]) * static_cast<double>(item.parts));
        }
        for (const BarrierStep& step : model_.steps) {
          if (step.class_index != static_cast<int>(c)) continue;
          of_unit = std::max(of_unit, static_cast<double>(step.all_bytes[r]));
        }
        most += of_unit * model_.classes[c].count();
      }
      if (model_.cap[r] > 0 && most > static_cast<double>(model_.cap[r]) * problem_.num_ranks) {
        model_.rows.push_back(r);
        const Resource& resource = problem_.resources[r];
        if (resource.is_time && !resource.is_pooled) model_.times.push_back(r);
      }
    }
  }

  const PlacementProblem& problem_;
  std::uint64_t forbidden_;
  BarrierModel model_;
};

}  // namespace

std::optional<BarrierModel> make_barrier_model(const PlacementProblem& problem,
                                               std::uint64_t forbidden) {
  if (problem.units.empty() || !is_for_contents(problem)) return std::nullopt;
  return ModelMaker(problem, forbidden).make();
}

}  // namespace plimsoll::balance
