#include "plimsoll/checkpoint/checkpoint_problem.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "checkpoint/model/missing_fit.h"
#include "checkpoint/model/unit_points.h"
#include "core/suggest.h"

namespace plimsoll::checkpoint {
namespace {

Bytes divide_up(Bytes bytes, int parts) { return (bytes + parts - 1) / parts; }

Result<void> check_model(const MemoryModel& model) {
  const auto refuse = [](const char* place, const char* message, const char* remedy) {
    return fail(ErrorCode::kValue, place, message, remedy);
  };
  if (model.world_size < 1) return refuse("world_size", "there is no rank", "give at least 1");
  if (!(model.unit_overhead_ms >= 0) || !std::isfinite(model.unit_overhead_ms)) {
    return refuse("unit_overhead_ms", "an overhead is negative or not finite",
                  "give a finite number of at least 0");
  }
  if (model.optimizer_bytes < 0) {
    return refuse("optimizer_bytes", "a size is negative", "give at least 0");
  }
  if (model.optimizer_bytes > Bytes{1} << 50) {
    return refuse("optimizer_bytes", "a size of more than 2^50 bytes",
                  "give the bytes of one model");
  }
  constexpr double kMaxRatio = 1024;  // far above that of any two types
  const auto is_ratio = [](double ratio) { return ratio > 0 && ratio <= kMaxRatio; };
  if (!is_ratio(model.param_dtype_ratio) || !is_ratio(model.reduce_dtype_ratio)) {
    return refuse("dtype_ratio", "a ratio of sizes is not above 0 and at most 1024",
                  "give the bytes of one type over those of the other, such as 0.5");
  }
  if (model.max_segment_length < 1) {
    return refuse("max_segment_length", "a unit of fewer than one module", "give at least 1");
  }
  return {};
}

Result<Bytes> needed(const std::optional<Bytes>& figure, const std::string& fqn, const char* name) {
  if (figure) return *figure;
  return fail(ErrorCode::kSchema, fqn, std::string(name) + " is absent",
              "record the totals of each module, or use a memory model without them");
}

// Makes one problem from one model's statistics.
class Builder {
 public:
  Builder(const ModuleStats& stats, const ModuleTree& tree, const MemoryModel& model)
      : stats_(stats), model_(model), n_(tree.num_modules()) {
    problem_.tree = tree;
    problem_.model = model;
    problem_.total_activations = stats.mod_stats[0].act_total;
    for (const ModuleInfo& module : stats.mod_stats) problem_.fqn.push_back(module.fqn);
  }

  Result<CheckpointProblem> build() {
    PLIMSOLL_RETURN_IF_ERROR(check_model(model_));
    PLIMSOLL_RETURN_IF_ERROR(find_modules());
    find_ranges();
    PLIMSOLL_RETURN_IF_ERROR(set_bases());
    for (int node = 0; node < n_; ++node) PLIMSOLL_RETURN_IF_ERROR(add_module(node));
    if (model_.max_segment_length > 1) {
      for (const std::vector<int>& children : problem_.tree.children) {
        PLIMSOLL_RETURN_IF_ERROR(add_segments(children));
      }
    }
    std::stable_sort(problem_.units.begin(), problem_.units.end(),
                     [](const CandidateUnit& a, const CandidateUnit& b) {
                       return a.first != b.first ? a.first < b.first : a.last < b.last;
                     });
    return std::move(problem_);
  }

 private:
  const ModuleInfo& info(int node) const { return stats_.mod_stats[node]; }
  Bytes sharded(int node) const {
    return stats_.mod_stats[0].param_per_module + info(node).grad_total;
  }

  Result<std::vector<char>> marked(const std::vector<std::string>& fqns, const char* option) {
    std::vector<char> is_marked(n_, 0);
    for (const std::string& fqn : fqns) {
      const auto found = index_of_.find(fqn);
      if (found == index_of_.end()) {
        return fail(ErrorCode::kNotFound, option, "no module '" + fqn + "' ran",
                    suggest(fqn, problem_.fqn));
      }
      is_marked[found->second] = 1;
    }
    return is_marked;
  }

  Result<void> find_modules() {
    for (int node = 0; node < n_; ++node) index_of_.emplace(info(node).fqn, node);
    PLIMSOLL_ASSIGN(is_listed_, marked(model_.ac_units, "ac_units"));
    if (model_.ac_units.empty()) is_listed_.assign(n_, 1);
    PLIMSOLL_ASSIGN(is_fsdp_, marked(model_.fsdp_units, "fsdp_units"));
    PLIMSOLL_ASSIGN(is_repeated_, marked(stats_.repeated, "repeated"));
    PLIMSOLL_ASSIGN(fit_failed_, marked(stats_.fit_failed, "fit_failed"));
    problem_.sac_stats = stats_.sac_stats;
    problem_.table_of.assign(n_, -1);
    for (const auto& [fqn, table] : stats_.sac_stats_of) {
      problem_.table_of[index_of_.at(fqn)] = table;
    }
    options_.resize(stats_.sac_stats.size());
    return {};
  }

  // Positions below each node, and whether an FSDP unit stands strictly below it.
  void find_ranges() {
    const ModuleTree& tree = problem_.tree;
    first_ = tree.position;
    holds_fsdp_.assign(n_, 0);
    own_parameters_.assign(n_, 0);
    for (int node = 0; node < n_; ++node) own_parameters_[node] = info(node).param_per_module;
    for (int node = 0; node < n_; ++node) {
      for (int above = tree.parent[node]; above >= 0 && first_[above] > first_[node];
           above = tree.parent[above]) {
        first_[above] = first_[node];
      }
    }
    for (int node = 0; node < n_; ++node) {
      if (is_fsdp_[node] == 0) continue;
      int above = tree.parent[node];
      for (; above >= 0 && is_fsdp_[above] == 0; above = tree.parent[above]) holds_fsdp_[above] = 1;
      for (int top = above; top >= 0 && holds_fsdp_[top] == 0; top = tree.parent[top]) {
        holds_fsdp_[top] = 1;
      }
      if (above >= 0) own_parameters_[above] -= info(node).param_per_module;
    }
  }

  // What every moment holds besides the model's own parameters, gradients and activations.
  Bytes constant() const {
    Bytes bytes = divide_up(model_.optimizer_bytes, model_.world_size);
    if (!model_.fsdp_buffers) return bytes;
    Bytes largest = 0;
    for (int node = 0; node < n_; ++node) {
      if (is_fsdp_[node] != 0) largest = std::max(largest, own_parameters_[node]);
    }
    const double ratio = 3 * model_.param_dtype_ratio + model_.reduce_dtype_ratio;
    return bytes + static_cast<Bytes>(std::ceil(ratio * static_cast<double>(largest)));
  }

  // Did the step's peak come in a forward? Then leaving the forward out would promise too little.
  bool peaks_in_forward() const {
    return model_.peak == PeakModel::kStep &&
           std::any_of(
               stats_.mod_stats.begin(), stats_.mod_stats.end(), [this](const ModuleInfo& module) {
                 return module.total_peak_fw && module.total_peak_fw >= stats_.total_step_peak;
               });
  }

  Result<void> set_bases() {
    const Bytes held = problem_.constant = constant();
    problem_.model.forward_peak |= peaks_in_forward();
    Bytes seen = 0;  // the largest total inside a module's own forward or backward
    for (int node = 0; node < n_; ++node) {
      const ModuleInfo& module = info(node);
      const Bytes state = divide_up(sharded(node), model_.world_size) + held;
      Bytes base = 0;
      if (model_.peak == PeakModel::kTorch) {
        base = module.act_total + module.act_grad_per_module + state;
      } else if (node > 0 && module.requires_grad) {
        PLIMSOLL_ASSIGN(const Bytes total,
                        needed(module.total_peak_bw, module.fqn, "total_peak_bw"));
        base = total - sharded(node) + state;
        seen = std::max(seen, total);
      }
      if (problem_.model.forward_peak) {
        PLIMSOLL_ASSIGN(const Bytes total,
                        needed(module.total_peak_fw, module.fqn, "total_peak_fw"));
        // No gradient exists yet.
        const Bytes parameters = info(0).param_per_module;
        base = std::max(base, total - parameters + divide_up(parameters, model_.world_size) + held);
      }
      seen = std::max(seen, module.total_peak_fw.value_or(0));
      problem_.base.push_back(base);
    }
    if (model_.peak == PeakModel::kStep) {
      PLIMSOLL_ASSIGN(Bytes end, needed(stats_.total_step_peak, stats_.name, "total_step_peak"));
      // Where the step's peak lies inside a module it is not a figure of the loss.
      if (stats_.total_before_root_bw && end <= seen) end = *stats_.total_before_root_bw;
      problem_.end_base = end - sharded(0) + divide_up(sharded(0), model_.world_size) + held;
    }
    return {};
  }

  bool may_be_unit(int node) const {
    return is_listed_[node] != 0 && is_repeated_[node] == 0 && holds_fsdp_[node] == 0 &&
           info(node).requires_grad;
  }

  bool has_fit(int node) const {
    const ModuleInfo& module = info(node);
    return !module.slopes.empty() && module.slopes.size() == module.intercepts.size();
  }

  // None where the module has no operator table.
  const OperatorOptions* options_of(int node) {
    const int table = problem_.table_of[node];
    if (table < 0) return nullptr;
    if (options_[table].options.empty()) {
      options_[table] = operator_options(stats_.sac_stats[table], operator_rules(model_));
    }
    return &options_[table];
  }

  void set_positions(CandidateUnit& unit) const {
    const ModuleTree& tree = problem_.tree;
    unit.first = first_[unit.nodes.front()];
    unit.last = tree.position[unit.nodes.back()];
    unit.threshold = unit.own_need;
    for (int position = unit.first; position <= unit.last; ++position) {
      unit.threshold = std::max(unit.threshold, problem_.base_at(position));
    }
  }

  // What the memory model asks of a unit besides the bases it covers. A run begins its backward at
  // its last module, when the forwards of all have run again.
  Result<Bytes> own_need(const std::vector<int>& nodes) const {
    const int node = nodes.back();
    const ModuleInfo& module = info(node);
    Bytes need = std::numeric_limits<Bytes>::min();
    if (!model_.unit_own_backward && !model_.recompute_working_set) return need;
    PLIMSOLL_ASSIGN(const Bytes total, needed(module.total_pre_bw, module.fqn, "total_pre_bw"));
    const Bytes before =
        total - sharded(node) + divide_up(sharded(node), model_.world_size) + constant();
    if (model_.unit_own_backward) need = before;
    if (model_.recompute_working_set) {
      Bytes peak = 0;
      for (int again : nodes) {
        PLIMSOLL_ASSIGN(const Bytes own,
                        needed(info(again).total_peak_fw, info(again).fqn, "total_peak_fw"));
        peak = std::max(peak, own);
      }
      PLIMSOLL_ASSIGN(const Bytes post, needed(module.total_post_fw, module.fqn, "total_post_fw"));
      // The output is made a second time beside the first.
      need = std::max(need, before + peak - post + module.output_per_module);
    }
    return need;
  }

  Result<void> add_module(int node) {
    const ModuleInfo& module = info(node);
    if (!may_be_unit(node) || module.act_fw_per_module == 0) return {};
    CandidateUnit unit;
    unit.nodes = {node};
    unit.kept_inside = module.act_fw_per_module;
    // Operators that autograd ignores can make sac_memory smaller than what autograd keeps, and
    // the ratio is a share of it.
    unit.sac_memory = std::max(module.sac_memory, unit.kept_inside);
    PLIMSOLL_ASSIGN(unit.own_need, own_need(unit.nodes));
    set_positions(unit);
    if (model_.costs == DiscardModel::kFit) {
      if (module.is_leaf || fit_failed_[node] != 0) return {};
      if (!has_fit(node)) return refuse_without_fit(module);
      const double inside = static_cast<double>(unit.kept_inside);
      const double memory = static_cast<double>(unit.sac_memory);
      std::vector<math::Line> lines;
      for (std::size_t s = 0; s < module.slopes.size(); ++s) {
        // At d discarded bytes upstream's ratio is (d + memory - inside) / memory.
        lines.push_back({module.sac_runtime * module.slopes[s] / memory,
                         module.sac_runtime * (module.slopes[s] * ((memory - inside) / memory) +
                                               module.intercepts[s])});
      }
      Bytes capacity = unit.kept_inside;
      if (model_.keep_stored_operators) {
        const OperatorOptions* choices = options_of(node);
        if (choices != nullptr) capacity -= choices->options.front().kept;
      }
      if (capacity <= 0) return {};
      math::ConvexCost cost = math::convex_cost(std::move(lines), capacity);
      cost.fixed += model_.unit_overhead_ms;
      unit.price = std::move(cost);
    } else {
      // Where the fit failed the module is marked as a leaf; its table is sound.
      const OperatorOptions* choices = options_of(node);
      if (choices == nullptr && module.is_leaf) return {};
      if (choices == nullptr) {
        unit.points.push_back({unit.kept_inside, module.sac_runtime + model_.unit_overhead_ms});
      } else {
        set_points(model_, choices->options, unit);
      }
      if (unit.points.empty()) return {};
      if (choices != nullptr && !choices->is_complete) {
        problem_.thinned.push_back(node);
        unit.loss_ms = choices->loss_ms;
      }
    }
    problem_.units.push_back(std::move(unit));
    return {};
  }

  // Runs of consecutive children that stand in one container: all of them again, or none.
  Result<void> add_segments(const std::vector<int>& children) {
    const auto container = [&](int node) {
      return std::string_view(info(node).fqn).substr(0, info(node).fqn.rfind('.'));
    };
    for (std::size_t a = 0; a < children.size(); ++a) {
      CandidateUnit unit;
      double recompute_ms = model_.unit_overhead_ms;
      const ModuleInfo& head = info(children[a]);
      for (std::size_t b = a;
           b < children.size() && b - a < static_cast<std::size_t>(model_.max_segment_length);
           ++b) {
        const int node = children[b];
        const ModuleInfo& tail = info(node);
        if (!may_be_unit(node) || is_fsdp_[node] != 0 ||
            container(node) != container(children[a])) {
          break;
        }
        unit.nodes.push_back(node);
        recompute_ms +=
            tail.is_leaf && tail.sac_runtime == 0 ? tail.fw_runtime_per_module : tail.sac_runtime;
        if (b == a) continue;
        unit.kept_inside = tail.act_total - tail.output_per_module -
                           (head.act_total - head.act_fw_per_module - head.output_per_module);
        if (unit.kept_inside <= 0) continue;
        unit.sac_memory = unit.kept_inside;
        PLIMSOLL_ASSIGN(unit.own_need, own_need(unit.nodes));
        set_positions(unit);
        unit.points = {{unit.kept_inside, recompute_ms}};
        problem_.units.push_back(unit);
      }
    }
    return {};
  }

  const ModuleStats& stats_;
  const MemoryModel& model_;
  const int n_;
  CheckpointProblem problem_;
  std::unordered_map<std::string_view, int> index_of_;
  std::vector<char> is_listed_, is_fsdp_, is_repeated_, fit_failed_, holds_fsdp_;
  std::vector<int> first_;
  std::vector<Bytes> own_parameters_;
  std::vector<OperatorOptions> options_;  // by table, made on first use
};

}  // namespace

OperatorRules operator_rules(const MemoryModel& model) {
  OperatorRules rules;
  rules.early_stop = model.early_stop;
  rules.counts_copies = model.saved_copies && model.costs == DiscardModel::kOperators;
  return rules;
}

void set_points(const MemoryModel& model, const std::vector<OperatorOption>& options,
                CandidateUnit& unit) {
  unit.points.clear();
  unit.saves.clear();
  for (const OperatorOption& option : options) {
    if (option.kept >= unit.kept_inside) continue;
    // What is kept lies there already while the forward makes the rest again.
    Bytes needs = std::numeric_limits<Bytes>::min();
    if (model.saved_copies) needs = unit.threshold + option.kept_extra;
    if (model.recompute_working_set) needs = std::max(needs, unit.own_need + option.kept);
    unit.points.push_back(
        {unit.kept_inside - option.kept, option.recompute_ms + model.unit_overhead_ms, needs});
    unit.saves.push_back(option.save);
  }
}

Result<CheckpointProblem> make_checkpoint_problem(const ModuleStats& stats, const ModuleTree& tree,
                                                  const MemoryModel& model) {
  return Builder(stats, tree, model).build();
}

}  // namespace plimsoll::checkpoint
