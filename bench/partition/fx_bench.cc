// Our own search for the least critical path beside the reference's modes, on recorded cases.
//
//   fx_bench FILE...
//
// Each FILE is of the format of tests/data/golden/graph-partition.json or
// graph-partition-large.json. Every distinct graph with latencies and a rate is answered by
// size_based, cost_aware (up to 60 operators) and kl_based, and by our search. One line each for
// the large ones: operators, the modes' critical paths (with "!" where a device is overfull or
// missing), ours, bound, gap, partitions, time in ms; and totals. Exit code 1 where ours is worse
// than a mode whose placement fits, or the judge objects.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "plimsoll/check/critical_path_check.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition/fx_search.h"

namespace plimsoll::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

struct Case {
  partition::Graph graph;
  partition::PartitionerConfig config;
};

// False where it is not ours to solve: no latencies, no rate, equal ids.
bool read_case(const Json& input, Case& result) {
  if (!input.contains("latency") || input.value("transfer_rate", 0.0) <= 0) return false;
  std::vector<partition::Node> nodes;
  std::map<std::string, int> index;
  for (const Json& entry : input["nodes"]) {
    partition::Node node;
    node.name = entry["name"];
    const auto op = partition::find_op_kind(entry["op"].get<std::string>());
    if (!op) return false;
    node.op = *op;
    for (const auto& name : entry.value("args", std::vector<std::string>{})) {
      node.inputs.push_back(index[name]);
    }
    node.size = {entry.value("output_size", Bytes{0}), entry.value("total_size", Bytes{0})};
    index[node.name] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(node));
  }
  auto graph = partition::make_graph(std::move(nodes));
  if (!graph) return false;
  result.graph = *std::move(graph);
  std::set<int> ids;
  for (const Json& entry : input["devices"]) {
    result.config.devices.push_back({entry["name"], entry["mem"], entry["id"]});
    if (!ids.insert(result.config.devices.back().logical_id).second) return false;
  }
  result.config.transfer_rate_bytes_per_sec = input["transfer_rate"];
  result.config.node_to_latency_mapping.resize(result.graph.nodes.size());
  for (const auto& [name, seconds] : input["latency"].items()) {
    result.config.node_to_latency_mapping[static_cast<std::size_t>(index[name])] =
        partition::NodeLatency{seconds[0], seconds[1]};
  }
  return true;
}

struct Totals {
  int num_cases = 0, num_optimal = 0, num_better = 0, num_equal = 0, num_worse = 0, num_alone = 0;
  double log_gain = 0;  // of ours over the best mode that fits
  double ms = 0;
};

bool solve_one(const Case& problem, const std::string& name, bool prints, Totals& totals) {
  using partition::PartitionMode;
  int num_operators = 0;
  for (int node = 0; node < problem.graph.num_nodes(); ++node) {
    num_operators += problem.graph.is_operator(node) ? 1 : 0;
  }
  std::string modes;
  double best = INFINITY;
  for (const PartitionMode mode :
       {PartitionMode::kSizeBased, PartitionMode::kCostAware, PartitionMode::kKlBased}) {
    partition::PartitionerConfig config = problem.config;
    config.mode = mode;
    char text[32] = "          -";
    if (mode != PartitionMode::kCostAware || num_operators <= 60) {
      const auto result = partition::partition_like_torch(problem.graph, config);
      if (result && result->outcome.plan) {
        const double path = result->outcome.certificate.objective;
        auto placement = *result->outcome.plan;
        // The mapping of kl_based is that of its start.
        const auto report = check::check_critical_path(problem.graph, config, placement);
        const bool fits = report && std::all_of(report->findings.begin(), report->findings.end(),
                                                [](const check::Finding& violation) {
                                                  using Code = check::FindingCode;
                                                  return violation.code == Code::kMappingMismatch;
                                                });
        if (fits) best = std::min(best, path);
        std::snprintf(text, sizeof text, "%11.2f%s", path, fits ? " " : "!");
      }
    }
    modes += text;
  }
  const auto start = Clock::now();
  const auto ours = partition::partition_for_critical_path(problem.graph, problem.config);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (!ours) {
    std::printf("%s: %s\n", name.c_str(), format_error(ours.error()).c_str());
    return true;  // nothing to solve
  }
  ++totals.num_cases;
  totals.ms += ms;
  if (!ours->outcome.plan) {
    const bool is_worse = std::isfinite(best);
    totals.num_worse += is_worse ? 1 : 0;
    if (is_worse) std::printf("%s: no placement\n", name.c_str());
    return !is_worse;
  }
  const auto& certificate = ours->outcome.certificate;
  const auto report = check::check_critical_path(problem.graph, problem.config, *ours->outcome.plan,
                                                 certificate.objective);
  const bool is_right = report && report->is_right();
  const double value = certificate.objective;
  totals.num_optimal += ours->outcome.status == SolveStatus::kOptimal ? 1 : 0;
  const bool is_worse = value > best * (1 + 1e-12);
  if (std::isinf(best)) {
    ++totals.num_alone;
  } else {
    const bool is_better = value < best * (1 - 1e-12);
    ++(is_worse ? totals.num_worse : is_better ? totals.num_better : totals.num_equal);
    totals.log_gain += value > 0 ? std::log(best / value) : 0;
  }
  if (prints || is_worse || !is_right) {
    std::printf("%-24s %5d %s %11.2f %11.2f %7.2f%% %5zu %9.1f %s%s\n", name.c_str(), num_operators,
                modes.c_str(), value, certificate.lower_bound.value_or(NAN),
                100 * certificate.gap().value_or(NAN), ours->outcome.plan->partitions.size(), ms,
                is_right ? "right" : "WRONG", is_worse ? " WORSE" : "");
  }
  return is_right && !is_worse;
}

bool run(const std::string& file) {
  const auto text = io::read_text_file(file);
  if (!text) {
    std::printf("%s\n", format_error(text.error()).c_str());
    return false;
  }
  const Json document = Json::parse(*text);
  Totals totals;
  bool is_right = true;
  std::printf("%-24s %5s %11s %11s %11s %11s %11s %8s %5s %9s\n", "graph", "ops", "size_based",
              "cost_aware", "kl_based", "ours", "bound", "gap", "parts", "ms");
  if (document.contains("inputs")) {
    for (const auto& [name, input] : document["inputs"].items()) {
      Case problem;
      if (read_case(input, problem)) is_right = solve_one(problem, name, true, totals) && is_right;
    }
  } else {
    for (const Json& record : document["cases"]) {
      Case problem;
      if (!read_case(record["input"], problem)) continue;
      is_right = solve_one(problem, record["id"], false, totals) && is_right;
    }
  }
  const int num_compared = totals.num_better + totals.num_equal + totals.num_worse;
  std::printf(
      "%d graphs: %d optimal; %d better than the best mode that fits, %d equal, %d worse, %d "
      "without one; modes longer by %.2f %% (geometric mean); %.1f ms in all\n",
      totals.num_cases, totals.num_optimal, totals.num_better, totals.num_equal, totals.num_worse,
      totals.num_alone, 100 * (std::exp(totals.log_gain / std::max(num_compared, 1)) - 1),
      totals.ms);
  return is_right;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  bool is_right = true;
  for (int i = 1; i < argc; ++i) is_right = plimsoll::bench::run(argv[i]) && is_right;
  return is_right ? 0 : 1;
}
