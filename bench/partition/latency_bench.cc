// Placements for one sample's latency of the placement benchmark's latency instances
// (https://github.com/msr-fiddle/dnn-partitioning), which are not ours to ship.
//
//   latency_bench FOLDER [EFFORT [SEED [chains|anneal|tree|spines|cuts ...]]]
//
// FOLDER holds the instances as *.json, below LayerGraphs and OperatorGraphs. For each: the value
// found, the published greedy, that baseline here, the throughput optimum's and the expert's
// latency as published ("!": it exceeds the memory), the bound and the gap, time of the search in
// ms, evaluations, the judge's verdict. A rule that is named is left out. Exit code 1 where a value
// is neither proved optimal nor below all published ones that fit, or the judge objects. Without a
// folder: nothing to do.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/import/dnn_partitioning_json.h"
#include "plimsoll/check/latency_check.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition/latency_search.h"

namespace plimsoll::bench {
namespace {

using Clock = std::chrono::steady_clock;

// NaN: the program does not end, or there is no expert's split.
struct Published {
  double greedy, split, expert;
  bool expert_fits = true;
};
const std::map<std::string, Published> kPublished = {
    {"LayerGraphs/bert24_inference.json", {100.219, 108.031, 111.937}},
    {"LayerGraphs/gnmt_inference.json", {268.500, NAN, 293.4, false}},
    {"LayerGraphs/inceptionv3_inference.json", {2485.24, NAN, 865.5, false}},
    {"LayerGraphs/resnet50_inference.json", {4197.06, 1443.793, 1014.9, false}},
    {"OperatorGraphs/bert_l-12_inference.json", {867.839, NAN, NAN}},
    {"OperatorGraphs/bert_l-3_inference.json", {416.204, 414.441, NAN}},
    {"OperatorGraphs/bert_l-6_inference.json", {494.135, 444.020, NAN}},
    {"OperatorGraphs/resnet50_inference.json", {839.536, 1123.653, NAN}},
};

bool solve_one(const std::string& folder, const std::string& name,
               const partition::LatencySearchOptions& options) {
  const auto input = io::read_text_file(folder + "/" + name).and_then([&](const std::string& text) {
    return io::read_dnn_partitioning(text, name);
  });
  if (!input) {
    std::printf("%s\n", format_error(input.error()).c_str());
    return false;
  }
  const partition::CostGraph& graph = input->graph;
  const auto start = Clock::now();
  const auto placed = partition::place_for_latency(graph, options, {});
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (!placed) {
    std::printf("%s\n", format_error(placed.error()).c_str());
    return false;
  }
  double greedy = NAN;
  if (const auto filled = partition::fill_greedily(graph)) {
    if (const auto report = check::check_latency(graph, *filled)) greedy = report->latency_ms;
  }
  const auto& certificate = placed->outcome.certificate;
  const double value = certificate.objective;
  std::string verdict = "no plan";
  if (placed->outcome.plan) {
    const auto report = check::check_latency(graph, *placed->outcome.plan, value);
    verdict = report && report->is_right() ? "right" : "WRONG";
  }
  const auto found = kPublished.find(name);
  const Published published = found == kPublished.end() ? Published{NAN, NAN, NAN} : found->second;
  const bool is_best = placed->outcome.status == SolveStatus::kOptimal ||
                       (!(value >= published.greedy) && !(value >= published.split) &&
                        !(published.expert_fits && value >= published.expert));
  std::printf("%-40s %10.3f %10.3f %10.3f %10.3f %10.3f%s %10.3f %7.2f%% %9.1f %9lld %s%s\n",
              name.c_str(), value, published.greedy, greedy, published.split, published.expert,
              published.expert_fits ? " " : "!", certificate.lower_bound.value_or(NAN),
              100 * certificate.gap().value_or(NAN), ms,
              static_cast<long long>(placed->num_evaluations), verdict.c_str(),
              is_best ? "" : " NOT BEST");
  return verdict == "right" && is_best;
}

int run(const std::string& folder, const partition::LatencySearchOptions& options) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      names.push_back(std::filesystem::relative(entry.path(), folder).string());
    }
  }
  std::sort(names.begin(), names.end());
  std::printf("%-40s %10s %10s %10s %10s %10s  %10s %8s %9s %9s\n", "instance", "value", "greedy",
              "greedy_us", "split", "expert", "bound", "gap", "ms", "evals");
  bool is_right = true;
  for (const std::string& name : names) is_right = solve_one(folder, name, options) && is_right;
  return is_right ? 0 : 1;
}

bool leave_out(const std::string& rule, partition::LatencyRules& rules) {
  const std::map<std::string, bool*> switches = {{"chains", &rules.uses_chains},
                                                 {"anneal", &rules.anneals},
                                                 {"tree", &rules.searches_tree},
                                                 {"spines", &rules.uses_spines},
                                                 {"cuts", &rules.uses_cuts}};
  const auto found = switches.find(rule);
  if (found == switches.end()) return false;
  *found->second = false;
  return true;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf(
        "usage: latency_bench FOLDER [EFFORT [SEED [chains|anneal|tree|spines|cuts ...]]]\n");
    return 0;
  }
  plimsoll::partition::LatencySearchOptions options;
  if (argc > 2) options.search.effort = std::atoll(argv[2]);
  if (argc > 3) options.search.seed = static_cast<std::uint64_t>(std::atoll(argv[3]));
  for (int i = 4; i < argc; ++i) {
    if (!plimsoll::bench::leave_out(argv[i], options.rules)) {
      std::printf("there is no rule '%s'\n", argv[i]);
      return 1;
    }
  }
  return plimsoll::bench::run(argv[1], options);
}
