#include "partition/pipeline/pipeline_chain.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/rounding.h"

namespace plimsoll::partition {
namespace {

struct Label {
  int cut = 0;
  int devices = 0;
  int count = 0;
  double sum = 0;
  int next = -1;    // the label of the stages behind; -1: none
  int option = -1;  // of the first stage
};

class PipelineChainSolver {
 public:
  PipelineChainSolver(const Downsets& cuts, StageTimes& times, const PipelineChainSearch& search,
                      const RunContext& context)
      : cuts_(cuts),
        times_(times),
        search_(search),
        context_(context),
        limit_(search.limit * (1 + kRounding)),
        at_devices_(static_cast<std::size_t>(search.num_devices) + 1) {
    for (const StageOption& option : times.options()) {
      most_per_count_ =
          std::max(most_per_count_, (option.devices + option.in_flight - 1) / option.in_flight);
    }
  }

  PipelineChainAnswer run() {
    const std::int64_t unknown_before = times_.num_unknown();
    labels_.push_back({});
    at_devices_[0].push_back(0);
    PipelineChainAnswer answer;
    for (int cut = 1; cut < cuts_.size(); ++cut) {
      fill(cut);
      if (stop_ != ChainStop::kFinished) {
        answer.stop = stop_;
        return answer;
      }
    }
    answer.chain = read_off();
    answer.is_proof = times_.num_unknown() == unknown_before;
    return answer;
  }

 private:
  // Devices that so much work needs at least.
  int devices_for(double work) const {
    if (!search_.uses_windows || !std::isfinite(limit_)) return 0;
    if (!(limit_ > 0)) return work > 0 ? search_.num_devices + 1 : 0;
    const double least = std::ceil(work * (1 - kRounding) / limit_);
    return static_cast<int>(std::min(least, search_.num_devices + 1.0));
  }

  void fill(int cut) {
    const bool is_last = cut + 1 == cuts_.size();
    const double total = cuts_.work(cuts_.size() - 1);
    const int most = search_.num_devices - devices_for(total - cuts_.work(cut));
    int least = std::max(1, devices_for(cuts_.work(cut)));
    if (is_last && search_.must_use_all) least = search_.num_devices;
    own_.clear();
    ++pairs_;
    for (int devices = least; devices <= most; ++devices) {
      for (std::size_t o = 0; o < times_.options().size(); ++o) {
        const StageOption& option = times_.options()[o];
        if (option.devices > devices) break;
        if (try_stages(cut, devices, static_cast<int>(o))) break;
      }
      if (must_stop()) return;
    }
  }

  // Stages that end at `cut`; true where no other label with these devices is of use.
  bool try_stages(int cut, int devices, int o) {
    const StageOption& option = times_.options()[o];
    const auto& behind = at_devices_[devices - option.devices];
    const double capacity =
        search_.uses_windows ? limit_ * option.devices : kUnlimited;  // device time
    for (auto i = behind.size(); i-- > 0;) {
      const int index = behind[i];
      const Label& from = labels_[index];
      ++pairs_;
      if ((cuts_.work(cut) - cuts_.work(from.cut)) * (1 - kRounding) > capacity) break;
      Label label{cut, devices, from.count + option.in_flight, from.sum, index, o};
      if (from.cut == cut || label.count > search_.max_count || is_dominated(label)) continue;
      if (!cuts_.is_subset(from.cut, cut)) continue;
      const double time =
          times_.time_ms({from.cut, cut, o, label.count}, search_.limit, !search_.minimises_sum);
      if (!(time <= search_.limit) || time == kUnlimited) continue;
      if (search_.minimises_sum) {
        label.sum += time;
        if (label.sum > search_.sum_limit || leaves_too_much(label)) continue;
        if (is_dominated(label)) continue;
      }
      add(label);
      const bool is_least = label.count <= (devices + most_per_count_ - 1) / most_per_count_;
      if (is_least && !search_.minimises_sum && search_.drops_dominated) return true;
    }
    return false;
  }

  // The rest adds more than is of use, whatever it is.
  bool leaves_too_much(const Label& label) const {
    if (search_.rest.empty()) return false;
    const double credit = search_.credit * (search_.num_devices - label.devices);
    return label.sum + search_.rest[label.cut] - credit > search_.sum_limit * (1 + kRounding);
  }

  // Labels of this cut come with more and more devices.
  bool is_dominated(const Label& label) const {
    if (!search_.drops_dominated && !search_.minimises_sum) {
      // Equal labels alone: without that, chains would be counted one by one.
      return std::any_of(own_.begin(), own_.end(), [&](int i) {
        return labels_[i].devices == label.devices && labels_[i].count == label.count;
      });
    }
    return std::any_of(own_.begin(), own_.end(), [&](int i) {
      const Label& other = labels_[i];
      if (search_.must_use_all && other.devices != label.devices) return false;
      if (!search_.drops_dominated &&
          (other.devices != label.devices || other.count != label.count))
        return false;
      return other.count <= label.count && other.sum <= label.sum;
    });
  }

  void add(const Label& label) {
    const int index = static_cast<int>(labels_.size());
    labels_.push_back(label);
    own_.push_back(index);
    at_devices_[label.devices].push_back(index);
  }

  bool must_stop() {
    stop_ = count_pairs(std::exchange(pairs_, 0), search_.pairs_left, context_);
    return stop_ != ChainStop::kFinished;
  }

  // `own_` still holds the labels of the full cut.
  std::optional<PipelineChain> read_off() const {
    if (own_.empty()) return std::nullopt;
    const int best = *std::min_element(
        own_.begin(), own_.end(), [&](int a, int b) { return labels_[a].sum < labels_[b].sum; });
    PipelineChain chain;
    chain.sum = labels_[best].sum;
    for (int i = best; labels_[i].next >= 0; i = labels_[i].next) {
      const Label& label = labels_[i];
      chain.stages.push_back({labels_[label.next].cut, label.cut, label.option, label.count});
    }
    return chain;
  }

  const Downsets& cuts_;
  StageTimes& times_;
  const PipelineChainSearch& search_;
  const RunContext& context_;
  const double limit_;
  int most_per_count_ = 1;  // devices that one of the count can stand for
  std::vector<Label> labels_;
  std::vector<std::vector<int>> at_devices_;  // [num_devices + 1] labels, ascending work
  std::vector<int> own_;                      // labels of the cut at hand
  std::int64_t pairs_ = 0;
  ChainStop stop_ = ChainStop::kFinished;
};

}  // namespace

PipelineChainAnswer find_pipeline_chain(const Downsets& cuts, StageTimes& times,
                                        const PipelineChainSearch& search,
                                        const RunContext& context) {
  PLIMSOLL_CHECK(cuts.is_finished(), "the cuts are finished");
  return PipelineChainSolver(cuts, times, search, context).run();
}

}  // namespace plimsoll::partition
