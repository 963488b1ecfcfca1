// Traced models as operator graphs and cost graphs. The files are not ours to ship.
//
//   operator_graph_bench FOLDER [split]
//
// FOLDER holds "plimsoll-fx-graph" files, *.json. For each, in the order of names: nodes,
// operators, edges, parameter GB, GFLOP, recorded ms by class, the median of five times to read it
// and to make its cost graph for four H100, and what that graph is made of. With `split` the least
// largest load of a contiguous split found within ten seconds, and its bound. Exit code 1 where a
// file is not read, or differs from what its collection says of it. Without a folder: nothing to
// do.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/documents/operator_graph_json.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition/contiguous_split.h"
#include "plimsoll/partition/operator_costs.h"

namespace plimsoll::bench {
namespace {

using partition::OperatorGraph;
using Clock = std::chrono::steady_clock;

struct Figures {
  int nodes, operators, edges;
  double parameter_gb, gflop, a100_ms, h100_ms, cpu_ms;
};
const std::map<std::string, Figures> kPublished = {
    {"gpt2-forward", {696, 545, 788, 0.249, 2333.2, 13.78, 6.2, 1230}},
    {"gpt2-joint", {1676, 1526, 2339, 0.249, 7154.2, 48.22, 22.59, 3832}},
    {"llama7b-forward", {2209, 1913, 2728, 13.477, 29261.6, 115.97, 43.01, 14859}},
    {"llama70b-joint", {19798, 19072, 25823, 137.953, 1842626.9, 6556.66, 2253.73, 927945}},
    {"bert-large-joint", {3792, 3394, 5119, 0.67, 8937.1, 37.26, 14.35, 4557}},
    {"t5-forward", {1823, 1560, 2081, 0.446, 1166.7, 8.12, 3.94, 625}},
    {"sd-unet-forward", {1971, 1281, 2170, 1.719, 3213.1, 13.74, 5.56, 1641}},
    {"mixtral-8x7b-forward", {3745, 3449, 4520, 93.406, 54417.2, 211.48, 77.63, 27572}},
    {"dlrm-forward", {319, 265, 349, 52.314, 65.7, 0.62, 0.34, 37}},
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <class Function>
double median_ms(Function function) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    function();
    times.push_back(ms_since(start));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Figures figures_of(const OperatorGraph& graph) {
  Figures sums{};
  sums.nodes = graph.num_nodes();
  const auto sum_ms = [&](const char* column) {
    const auto index = graph.find_time_column(column);
    double sum = 0;
    for (const auto& node : graph.nodes) {
      if (index) sum += node.time_ms[static_cast<std::size_t>(*index)].value_or(0);
    }
    return sum;
  };
  for (int node = 0; node < graph.num_nodes(); ++node) {
    sums.operators += graph.is_operator(node) ? 1 : 0;
    sums.edges += static_cast<int>(graph.nodes[node].inputs.size());
    sums.gflop += graph.nodes[node].flops / 1e9;
  }
  sums.parameter_gb = static_cast<double>(parameter_bytes(graph)) / 1e9;
  sums.a100_ms = sum_ms("a100");
  sums.h100_ms = sum_ms("h100");
  sums.cpu_ms = sum_ms("cpu");
  return sums;
}

bool agree(const Figures& found, const Figures& published) {
  const auto rounds_to = [](double a, double b, double unit) {
    return std::abs(a - b) <= 0.51 * unit;
  };
  return found.nodes == published.nodes && found.operators == published.operators &&
         found.edges == published.edges &&
         rounds_to(found.parameter_gb, published.parameter_gb, 1e-3) &&
         rounds_to(found.gflop, published.gflop, 0.1) &&
         rounds_to(found.a100_ms, published.a100_ms, 0.01) &&
         rounds_to(found.h100_ms, published.h100_ms, 0.01) &&
         rounds_to(found.cpu_ms, published.cpu_ms, 1);
}

partition::OperatorCostOptions four_h100() {
  partition::OperatorCostOptions options;
  constexpr double kNvlinkBytesPerMs = 450e6;
  partition::OperatorDevices& devices = options.classes.emplace_back();
  devices.devices = {"h100", 4, 80 * kGiB, kNvlinkBytesPerMs};
  devices.time_column = "h100";
  return options;
}

bool split(const partition::CostGraph& graph) {
  partition::ContiguousSplitOptions options;
  RunContext context;
  context.deadline = Clock::now() + std::chrono::seconds(10);
  const auto start = Clock::now();
  const auto found = partition::split_contiguously(graph, options, context);
  if (!found) {
    std::printf("  %s\n", format_error(found.error()).c_str());
    return false;
  }
  const auto& outcome = found->outcome;
  std::printf("  split: %s, %d groups, %lld downsets",
              std::string(to_string(outcome.status)).c_str(), found->num_groups,
              static_cast<long long>(found->num_downsets));
  bool is_right = true;
  if (outcome.plan) {
    const auto report = check::check_placement(graph, *outcome.plan);
    is_right = report && report->is_right();
    std::printf(", load %.4f ms, bound %.4f, judge: %s", outcome.certificate.objective,
                outcome.certificate.lower_bound.value_or(0), is_right ? "right" : "WRONG");
  }
  std::printf(", %.0f ms\n", ms_since(start));
  return is_right;
}

bool measure(const std::filesystem::path& path, bool splits) {
  const auto text = io::read_text_file(path.string());
  const auto graph = text ? io::read_operator_graph(*text, path.filename().string())
                          : Result<OperatorGraph>(tl::unexpected<Error>(text.error()));
  if (!graph) {
    std::printf("%s\n", format_error(graph.error()).c_str());
    return false;
  }
  const auto costs = make_cost_graph(*graph, four_h100());
  if (!costs) {
    std::printf("%s\n", format_error(costs.error()).c_str());
    return false;
  }
  const Figures found = figures_of(*graph);
  const auto published = kPublished.find(path.stem().string());
  const bool is_right = published == kPublished.end() || agree(found, published->second);
  const double read_ms = median_ms([&] { (void)io::read_operator_graph(*text, "graph.json"); });
  const double make_ms = median_ms([&] { (void)make_cost_graph(*graph, four_h100()); });
  Bytes held = 0;
  Bytes stashed = 0;
  for (const auto& node : costs->graph.nodes) held += node.memory;
  for (const Bytes bytes : costs->stashed) stashed += bytes;
  std::printf(
      "%-21s %6d nodes %6d ops %6d edges %8.3f GB %10.1f GFLOP %8.2f %8.2f %8.0f ms%s | read %.1f "
      "ms, costs %.1f ms: %d nodes, %zu nets, %zu weights, held %.1f GB, stashed %.1f GB\n",
      path.stem().string().c_str(), found.nodes, found.operators, found.edges, found.parameter_gb,
      found.gflop, found.a100_ms, found.h100_ms, found.cpu_ms, is_right ? "" : " DIFFERS", read_ms,
      make_ms, costs->graph.num_nodes(), costs->graph.nets.size(), costs->graph.weights.size(),
      static_cast<double>(held) / 1e9, static_cast<double>(stashed) / 1e9);
  return (!splits || split(costs->graph)) && is_right;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  if (argc < 2) return 0;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  bool is_right = true;
  for (const auto& path : paths) is_right = plimsoll::bench::measure(path, argc > 2) && is_right;
  return is_right ? 0 : 1;
}
