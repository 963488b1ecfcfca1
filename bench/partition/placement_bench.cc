// General placements of the placement benchmark's throughput instances
// (https://github.com/msr-fiddle/dnn-partitioning), which are not ours to ship.
//
//   placement_bench FOLDER SECONDS [PROOF_SECONDS] [NAME]
//
// FOLDER holds the instances as *.json, below LayerGraphs and OperatorGraphs. For each whose name
// contains NAME, in the order of names: the value found in at most SECONDS, the best value known
// before (docs/mathematics/placements.md#general-placements; values that ended in the seventh
// digit), the ratio minus 1, bound and gap, how the bound was proved, time in ms until the value
// was met and in all, moves. With PROOF_SECONDS the programs are tried, too. Exit code 1 where a
// value is worse than the known one by more than 1e-6 or the judge objects. Without a folder:
// nothing to do.

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
#include "partition/throughput/placement_bounds.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition/general_placement.h"

namespace plimsoll::bench {
namespace {

using Clock = std::chrono::steady_clock;

const std::map<std::string, double> kBestKnown = {
    {"LayerGraphs/bert24_inference.json", 17.714719},
    {"LayerGraphs/bert24_training.json", 39.789539},
    {"LayerGraphs/gnmt_inference.json", 31.687311},
    {"LayerGraphs/gnmt_training.json", 88.462242},
    {"LayerGraphs/resnet50_inference.json", 33.401332},
    {"LayerGraphs/resnet50_training.json", 76.741330},
    {"LayerGraphs/inceptionv3_inference.json", 51.551864},
    {"LayerGraphs/inceptionv3_training.json", 117.575554},
    {"OperatorGraphs/bert_l-3_inference.json", 21.908376},
    {"OperatorGraphs/bert_l-3_training.json", 54.207399},
    {"OperatorGraphs/bert_l-6_inference.json", 28.332191},
    {"OperatorGraphs/bert_l-6_training.json", 71.642260},
    {"OperatorGraphs/bert_l-12_inference.json", 130.038095},
    {"OperatorGraphs/bert_L-12_training.json", 373.424072},
    {"OperatorGraphs/resnet50_inference.json", 124.348850},
    {"OperatorGraphs/resnet50_training.json", 255.194416},
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// False where the answer is wrong.
bool place_one(const std::string& folder, const std::string& name, double seconds,
               double proof_seconds) {
  const auto input = io::read_text_file(folder + "/" + name).and_then([&](const std::string& text) {
    return io::read_dnn_partitioning(text, name);
  });
  if (!input) {
    std::printf("%s\n", format_error(input.error()).c_str());
    return false;
  }
  const auto start = Clock::now();
  double found_ms = 0;
  partition::GeneralPlacementOptions options;
  options.search.effort = std::int64_t{1} << 40;
  RunContext context = RunContext::within(seconds);
  context.progress = [&](const Progress&) { found_ms = ms_since(start); };
  const auto placed = partition::place_generally(input->graph, options, context);
  if (!placed || !placed->outcome.plan) {
    std::printf("%s: no plan\n", name.c_str());
    return false;
  }
  Certificate certificate = placed->outcome.certificate;
  const double all_ms = ms_since(start);
  if (proof_seconds > 0) {
    partition::PlacementBoundOptions bound_options;
    bound_options.goal = certificate.objective;
    bound_options.program_time_limit_s = proof_seconds;
    const auto bound = partition::bound_placement(input->graph, bound_options);
    if (bound && bound->lower_bound > *certificate.lower_bound) {
      certificate.lower_bound = bound->lower_bound;
      certificate.proof = bound->proof;
    }
    if (bound && bound->plan) std::printf("the program met a better plan\n");
  }
  const auto known = kBestKnown.find(name);
  const double expected = known == kBestKnown.end() ? NAN : known->second;
  check::PlacementCheckOptions check_options;
  check_options.requires_contiguity = false;
  check_options.stated_max_load = certificate.objective;
  const auto report = check::check_placement(input->graph, *placed->outcome.plan, check_options);
  const bool is_right = report && report->is_right();
  std::printf("%-40s %12.6f %12.6f %10.2e %12.6f %8.4f %9.1f %9.1f %6d %12lld %s (%s; %.1f ms)\n",
              name.c_str(), certificate.objective, expected, certificate.objective / expected - 1,
              certificate.lower_bound.value_or(NAN), certificate.gap().value_or(NAN), found_ms,
              all_ms, placed->num_groups, static_cast<long long>(placed->num_moves),
              is_right ? "right" : "WRONG", to_string(certificate.proof).c_str(),
              ms_since(start) - all_ms);
  std::fflush(stdout);
  return is_right && !(certificate.objective > expected * (1 + 1e-6));
}

int run(const std::string& folder, double seconds, double proof_seconds, const std::string& part) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = std::filesystem::relative(entry.path(), folder).string();
    if (name.find(part) != std::string::npos) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::printf("%-40s %12s %12s %10s %12s %8s %9s %9s %6s %12s\n", "instance", "value", "known",
              "ratio-1", "bound", "gap", "found_ms", "all_ms", "groups", "moves");
  bool is_right = true;
  for (const std::string& name : names) {
    is_right = place_one(folder, name, seconds, proof_seconds) && is_right;
  }
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::printf("usage: placement_bench FOLDER SECONDS [PROOF_SECONDS] [NAME]\n");
    return 0;
  }
  const double proof_seconds = argc > 3 ? std::atof(argv[3]) : 0;
  return plimsoll::bench::run(argv[1], std::atof(argv[2]), proof_seconds, argc > 4 ? argv[4] : "");
}
