// What stages of a pipeline model take: see pipeline_model.h for the formulas.
//
// Sums over every cut answer most questions by a subtraction: the time of fastest choices is a
// bound, and exact where no edge is cut; the bytes of fastest choices show whether they fit. Only
// what is left open looks at the operators, and solves their choices as a knapsack.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "partition/graph/downsets.h"
#include "partition/graph/group_graph.h"
#include "partition/pipeline/choice_knapsack.h"
#include "partition/pipeline/pipeline_chain.h"
#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/pipeline_plan.h"

namespace plimsoll::partition {

class ModelStageTimes : public StageTimes {
 public:
  struct Settings {
    int max_data_parallel = 1;
    std::int64_t max_knapsack_nodes = 0;
    bool bounds_stages = true;
  };
  // Precondition: `cuts` is finished and of `groups`, which are of `model`.
  ModelStageTimes(const PipelineModel& model, const GroupGraph& groups, const Downsets& cuts,
                  const Settings& settings);

  const std::vector<StageOption>& options() const override { return options_; }
  double time_ms(const StageQuery& query, double limit, bool is_any_enough) override;
  std::int64_t num_unknown() const override { return num_unknown_; }

  // The fastest such stage. Precondition: there is one.
  PipelineStage make_stage(const StageQuery& query);
  std::int64_t num_stages() const { return num_stages_; }

 private:
  struct Parallelism {
    int degree;  // index into sums_
    int tensor_parallel;
    int data_parallel;
  };
  // For one price on bytes, over the operators of each cut: what is cheapest then.
  struct PriceSums {
    double price;  // ms a byte
    std::vector<double> time;
    std::vector<Bytes> bytes;
  };
  // Over the operators of each cut, for one tensor-parallel degree; of fastest choices where not
  // said.
  struct Sums {
    int tensor_parallel = 1;
    bool is_plain = true;  // choices differ in time and bytes alone, so fastest is always fastest
    bool has_one_choice = true;
    std::vector<double> time, parameters;
    std::vector<Bytes> per_microbatch, memory;
    std::vector<Bytes> least_per_microbatch, least_memory;
    std::vector<int> num_impossible;
    // [edges] ms there and back at the edge's source and at its destination, least over choices.
    std::vector<double> source_ms, dest_ms;
    std::map<Bytes, std::vector<PriceSums>> at_prices;  // by y; ascending prices
  };
  struct Known {
    double bound, time;
  };
  struct BestChoice;
  BestChoice best_choice(int op, Sums& sums) const;
  void add_sums(int tensor_parallel);
  void find_cut_edges();
  double moved_ms(const Sums& sums, int begin, int end) const;
  const std::vector<PriceSums>& price_sums(Sums& sums, Bytes y);
  // What the prices say of a stage whose fastest choices do not fit.
  Known ask_prices(Sums& sums, const StageQuery& query, Bytes y);
  Known solve(const StageQuery& query, double limit, bool is_any_enough);
  // For given y, the knapsack of a stage.
  void make_items(const StageQuery& query);
  double sync_ms_per_byte(int data_parallel) const;

  const PipelineModel& model_;
  const GroupGraph& groups_;
  const Downsets& cuts_;
  const Settings settings_;
  std::vector<std::vector<int>> touching_;
  std::vector<StageOption> options_;
  std::vector<Parallelism> parallelism_;      // [options]
  std::vector<Sums> sums_;                    // [degrees]
  std::vector<std::int64_t> first_cut_edge_;  // [cuts + 1]
  std::vector<int> cut_edges_;                // edges that a cut cuts, ascending for each
  std::map<std::tuple<int, int, int, Bytes>, Known> known_;  // knapsacks: begin, end, option, y
  std::int64_t num_unknown_ = 0;
  std::int64_t num_stages_ = 0;
  std::vector<int> members_;  // work space
  std::vector<std::vector<ChoiceItem>> items_;
};

}  // namespace plimsoll::partition
