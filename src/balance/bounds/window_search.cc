#include "balance/bounds/window_search.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

namespace plimsoll::balance {
namespace {

struct Window {
  double value = 0;
  int node = 0;    // in the witness
  int proof = -1;  // as above; of this window or one around it
  double low = 0;
  double high = 0;
  RoomLimits limits;
  RoomBranch branch;
};

struct IsLessLikely {
  bool operator()(const Window& a, const Window& b) const {
    return a.value != b.value ? a.value > b.value : a.node > b.node;
  }
};

class WindowSearch {
 public:
  WindowSearch(const RoomOracle& oracle, int num_classes, const WindowOptions& options)
      : oracle_(oracle), num_classes_(num_classes), options_(options) {}

  WindowResult run() {
    result_.witness.top = options_.top;
    result_.witness.nodes.emplace_back();
    ask({0, 0, -1, 0, options_.top, {}, {}});
    while (true) {
      const Window window = heap_.top();
      result_.value = window.value;
      result_.room = window.high;
      const double width = window.high - window.low;
      const double scale = std::max(window.value, window.high);
      const double branch_width =
          window.branch.host >= 0 ? options_.host_width : options_.branch_width;
      const bool may_branch = (window.branch.host >= 0 || window.branch.class_index >= 0) &&
                              width <= branch_width * scale;
      if (window.value >= options_.goal || result_.num_nodes >= options_.max_nodes ||
          (options_.is_spent && options_.is_spent()) ||
          (width <= options_.tolerance * scale && !may_branch)) {
        break;
      }
      heap_.pop();
      if (may_branch && window.branch.host >= 0) {
        branch_host(window);
      } else if (may_branch) {
        branch(window);
      } else {
        split(window);
      }
    }
    return std::move(result_);
  }

 private:
  int add_children(const Window& window, double at, int class_index, int host) {
    const int first = static_cast<int>(result_.witness.nodes.size());
    WindowNode& node = result_.witness.nodes[window.node];
    node.first_child = first;
    node.split = at;
    node.class_index = class_index;
    node.host = host;
    node.proof = -1;
    result_.witness.nodes.resize(result_.witness.nodes.size() + 2);
    return first;
  }

  void ask(Window window) {
    ++result_.num_nodes;
    const double goal = options_.goal - window.low;
    RoomAnswer answer = oracle_(window.high, window.limits, goal);
    window.branch = answer.branch;
    // The proof of the window around this one holds here too: keep it where it says more.
    if (window.proof < 0 || answer.proof.uniform_load > load_of(window)) {
      window.proof = static_cast<int>(result_.witness.proofs.size());
      result_.witness.proofs.push_back(std::move(answer.proof));
    }
    push(std::move(window));
  }

  double load_of(const Window& window) const {
    return result_.witness.proofs[window.proof].uniform_load;
  }

  void push(Window window) {
    window.value = window.low + load_of(window);
    result_.witness.nodes[window.node].proof = window.proof;
    heap_.push(std::move(window));
  }

  void split(const Window& window) {
    const double a = load_of(window);
    double at = (window.low + window.high) / 2;
    if (options_.goal < kInfinity && options_.goal - a > window.low && options_.goal - a < at) {
      at = options_.goal - a;
    }
    const int first = add_children(window, at, -1, -1);
    Window upper = window;
    upper.node = first + 1;
    upper.low = at;
    push(std::move(upper));
    Window lower = window;
    lower.node = first;
    lower.high = at;
    ask(std::move(lower));
  }

  void branch(const Window& window) {
    result_.has_branched = true;
    const int c = window.branch.class_index;
    const double at = std::floor(window.branch.at);
    const int first = add_children(window, at, c, -1);
    Window fewer = window;
    fewer.node = first;
    if (fewer.limits.hi.empty()) fewer.limits.hi.assign(num_classes_, kInfinity);
    fewer.limits.hi[c] = std::min(fewer.limits.hi[c], at);
    Window more = window;
    more.node = first + 1;
    if (more.limits.lo.empty()) more.limits.lo.assign(num_classes_, 0);
    more.limits.lo[c] = std::max(more.limits.lo[c], at + 1);
    ask(std::move(fewer));
    ask(std::move(more));
  }

  // Hosts in front of this one have no smaller block loads, those behind it no larger ones.
  void branch_host(const Window& window) {
    result_.has_branched = true;
    const auto host = static_cast<std::size_t>(window.branch.host);
    const auto num_hosts = static_cast<std::size_t>(options_.num_hosts);
    const int first = add_children(window, window.branch.at, -1, window.branch.host);
    Window lower = window;
    lower.node = first;
    if (lower.limits.least_blocks.empty()) {
      lower.limits.least_blocks.assign(num_hosts, 0);
      lower.limits.most_blocks.assign(num_hosts, kInfinity);
    }
    Window upper = lower;
    upper.node = first + 1;
    for (std::size_t h = host; h < num_hosts; ++h) {
      double& most = lower.limits.most_blocks[h];
      most = std::min(most, window.branch.at);
    }
    for (std::size_t h = 0; h <= host; ++h) {
      double& least = upper.limits.least_blocks[h];
      least = std::max(least, window.branch.at);
    }
    ask(std::move(lower));
    ask(std::move(upper));
  }

  const RoomOracle& oracle_;
  const int num_classes_;
  const WindowOptions& options_;
  std::priority_queue<Window, std::vector<Window>, IsLessLikely> heap_;
  WindowResult result_;
};

}  // namespace

WindowResult search_windows(const RoomOracle& oracle, int num_classes,
                            const WindowOptions& options) {
  return WindowSearch(oracle, num_classes, options).run();
}

}  // namespace plimsoll::balance
