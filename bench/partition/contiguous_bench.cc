// Contiguous splits of the placement benchmark's throughput instances
// (https://github.com/msr-fiddle/dnn-partitioning), which are not ours to ship.
//
//   contiguous_bench FOLDER [rule left out]
//
// FOLDER holds the instances as *.json, below LayerGraphs and OperatorGraphs. For each, in the
// order of names: the value found, the published optimum (of the benchmark's own program, or
// measured where it does not end), the ratio minus 1, bound, time in ms with and without reading,
// groups, downsets, pairs. The judge's verdict on every plan stands last. Exit code 1 where a value
// differs by more than 1e-6 or the judge objects. Without a folder: nothing to do.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/import/dnn_partitioning_json.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition/contiguous_split.h"

namespace plimsoll::bench {
namespace {

using Clock = std::chrono::steady_clock;

const std::map<std::string, double> kPublished = {
    {"LayerGraphs/bert24_inference.json", 17.789906},
    {"LayerGraphs/bert24_training.json", 41.745812},
    {"LayerGraphs/gnmt_inference.json", 32.910658},
    {"LayerGraphs/gnmt_training.json", 107.004414},
    {"LayerGraphs/resnet50_inference.json", 33.774666},
    {"LayerGraphs/resnet50_training.json", 78.631812},
    {"LayerGraphs/inceptionv3_inference.json", 51.551864},
    {"LayerGraphs/inceptionv3_training.json", 122.761616},
    {"OperatorGraphs/bert_l-3_inference.json", 27.918568},
    {"OperatorGraphs/bert_l-3_training.json", 65.303149},
    {"OperatorGraphs/bert_l-6_inference.json", 29.579506},
    {"OperatorGraphs/bert_l-6_training.json", 72.864966},
    {"OperatorGraphs/bert_l-12_inference.json", 147.477984},
    {"OperatorGraphs/bert_L-12_training.json", 437.997638},
    {"OperatorGraphs/resnet50_inference.json", 124.348850},
    {"OperatorGraphs/resnet50_training.json", 255.194416},
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool leave_out(const std::string& rule, partition::ContiguousRules& rules) {
  const std::map<std::string, bool*> switches = {
      {"absorb", &rules.absorbs_groups},      {"orders", &rules.starts_from_orders},
      {"guesses", &rules.guesses_from_below}, {"windows", &rules.uses_windows},
      {"relax", &rules.relaxes_memory},
  };
  const auto found = switches.find(rule);
  if (found == switches.end()) return false;
  *found->second = false;
  return true;
}

// False where the answer is wrong.
bool solve_one(const std::string& folder, const std::string& name,
               const partition::ContiguousSplitOptions& options, double& total_ms) {
  const auto start = Clock::now();
  const auto input = io::read_text_file(folder + "/" + name).and_then([&](const std::string& text) {
    return io::read_dnn_partitioning(text, name);
  });
  if (!input) {
    std::printf("%s\n", format_error(input.error()).c_str());
    return false;
  }
  const double read_ms = ms_since(start);
  const auto split = partition::split_contiguously(input->graph, options, {});
  const double all_ms = ms_since(start);
  total_ms += all_ms;
  if (!split) {
    std::printf("%s\n", format_error(split.error()).c_str());
    return false;
  }
  const auto& outcome = split->outcome;
  const double value = outcome.certificate.objective;
  const bool is_throughput = folder.find("throughput") != std::string::npos;
  const auto published = is_throughput ? kPublished.find(name) : kPublished.end();
  const double expected = published == kPublished.end() ? NAN : published->second;
  std::string verdict = "no plan";
  if (outcome.plan) {
    check::PlacementCheckOptions check_options;
    check_options.stated_max_load = value;
    const auto report = check::check_placement(input->graph, *outcome.plan, check_options);
    verdict = report && report->is_right() ? "right" : "WRONG";
  }
  std::printf("%-40s %-9s %12.6f %12.6f %10.2e %12.6f %9.1f %9.1f %6d %8lld %12lld %s\n",
              name.c_str(), std::string(to_string(outcome.status)).c_str(), value, expected,
              value / expected - 1, outcome.certificate.lower_bound.value_or(NAN), all_ms,
              all_ms - read_ms, split->num_groups, static_cast<long long>(split->num_downsets),
              static_cast<long long>(split->num_pairs), verdict.c_str());
  return verdict == "right" && !(std::abs(value - expected) > 1e-6 * expected);
}

int run(const std::string& folder, const partition::ContiguousSplitOptions& options) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      names.push_back(std::filesystem::relative(entry.path(), folder).string());
    }
  }
  std::sort(names.begin(), names.end());
  std::printf("%-40s %-9s %12s %12s %10s %12s %9s %9s %6s %8s %12s\n", "instance", "status",
              "value", "published", "ratio-1", "bound", "all_ms", "solve_ms", "groups", "downsets",
              "pairs");
  double total_ms = 0;
  bool is_right = true;
  for (const std::string& name : names) {
    is_right = solve_one(folder, name, options, total_ms) && is_right;
  }
  std::printf("total %.1f ms\n", total_ms);
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("usage: contiguous_bench FOLDER [absorb|orders|guesses|windows|relax ...]\n");
    return 0;
  }
  plimsoll::partition::ContiguousSplitOptions options;
  for (int i = 2; i < argc; ++i) {
    if (!plimsoll::bench::leave_out(argv[i], options.rules)) {
      std::printf("there is no rule '%s'\n", argv[i]);
      return 1;
    }
  }
  return plimsoll::bench::run(argv[1], options);
}
