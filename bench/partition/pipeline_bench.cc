// pipeline_bench FOLDER [PART]: plans the published cases of PipeDream
// (https://github.com/msr-fiddle/pipedream; FOLDER/pipedream/*.txt, 1 GB/s) and Piper
// (https://github.com/msr-fiddle/piper; FOLDER/piper/*.json, expected.jsonl's settings, 25 GiB/s);
// with PART, those whose name holds it.
//
// Columns: status, value in s, the published value (of the published program; `-`: it finds nothing
// or does not end), the ratio minus 1, bound, time in ms (median of three runs), the published
// program's own time, their ratio, downsets, pairs of cuts, stages looked into. PipeDream rows say
// `reference` for its own optimizer, `plan` for our search. The judge's verdict on every plan
// stands last. Exit code 1 where a value is worse than the published one, a reference differs in
// its printed digits, or the judge objects. Without a folder: nothing to do.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/import/pipedream_graph.h"
#include "io/import/piper_json.h"
#include "partition/profile/pipedream.h"
#include "plimsoll/check/pipeline_check.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition/plan_pipeline.h"

namespace plimsoll::bench {
namespace {

using partition::PipelineModel;

struct PipeDreamRow {
  const char* name;
  // Time per stage in s on 4 machines, the same straight, on 16, straight; NaN: it does not end.
  double values[4];
  double wall_s;  // of the published program on 16 machines
};

const PipeDreamRow kPipeDream[] = {
    {"alexnet", {0.023166, 0.028721, 0.007325, 0.028721}, 0.14},
    {"vgg16", {0.175733, 0.216450, 0.047386, 0.159531}, 0.34},
    {"squeezenet1_0", {0.072329, 0.072954, 0.018563, 0.051094}, 0.37},
    {"resnet18", {0.065918, 0.069523, 0.018237, 0.032330}, 0.47},
    {"resnet50", {0.111497, 0.111497, 0.029212, 0.029642}, 2.4},
    {"resnet101", {0.103941, 0.103941, 0.026149, 0.026149}, 9.1},
    {"resnext50", {0.151623, 0.151988, 0.038697, 0.040547}, 3.0},
    {"resnext101", {0.140525, 0.140525, 0.035765, 0.035765}, 7.5},
    {"gnmt", {0.025868, 0.025868, 0.018380, 0.019032}, 0.50},
    {"gnmt_large", {0.137129, 0.137129, 0.058971, 0.076825}, 34.6},
    {"inception_v3", {NAN, NAN, NAN, NAN}, 120},
};

struct PiperRow {
  const char* name;
  int devices;
  double memory_gib;
  double value_s;  // NaN: it finds nothing
  double cpu_s;
};

const PiperRow kPiper[] = {
    {"bert32a100", 8, 8, 0.16585575000000002, 0.042},
    {"bert32a100", 32, 2, 0.06654950000000001, 0.116},
    {"bert32a100", 128, 8, 0.01012088032392661, 0.39},
    {"bert32a100", 512, 8, 0.0025611278460125134, 2.593},
    {"bert32a100", 64, 80, 0.015650178018607196, 0.268},
    {"gnmt", 2, 2.5, 263.35428906249996, 144.642},
    {"gnmt", 8, 0.6, NAN, 238.702},
    {"resnet", 8, 4, 73.49328600013165, 2.354},
    {"resnet", 16, 1.5, NAN, 3.49},
    {"resnet", 64, 1, NAN, 6.404},
    {"resnet", 128, 4, 4.305713559779855, 9.584},
};

// Milliseconds of processor time, the median of three runs.
double time_of(const std::function<void()>& run) {
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    run();
    times.push_back(1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    if (times.front() > 5000) return times.front();
  }
  std::sort(times.begin(), times.end());
  return times[1];
}

void print_head() {
  std::printf("%-30s %-10s %14s %12s %9s %14s %10s %10s %8s %8s %12s %9s\n", "instance", "status",
              "value_s", "published_s", "ratio-1", "bound_s", "ms", "publ_ms", "faster", "downsets",
              "pairs", "stages");
}

void print_row(const std::string& name, const std::string& status, double value_s,
               double published_s, double bound_s, double ms, double published_ms,
               const std::string& rest) {
  std::printf("%-30s %-10s %14.9g %12.9g %9.1e %14.9g %10.2f %10.0f %8.0f %s\n", name.c_str(),
              status.c_str(), value_s, published_s, value_s / published_s - 1, bound_s, ms,
              published_ms, published_ms / ms, rest.c_str());
}

// False where the plan is wrong or worse than `limit_s`.
bool plan_one(const std::string& name, const PipelineModel& model,
              const partition::PipelineOptions& options, double published_s, double limit_s,
              double published_ms, double time_limit_s) {
  std::optional<partition::PipelineSearch> search;
  const double ms = time_of([&] {
    auto result = partition::plan_pipeline(model, options, RunContext::within(time_limit_s));
    if (result) search = *std::move(result);
  });
  if (!search) return false;
  const auto& outcome = search->outcome;
  std::string verdict = "no plan";
  bool is_right = outcome.status == SolveStatus::kInfeasible && std::isnan(published_s);
  if (outcome.plan) {
    const auto report =
        check::check_pipeline(model, *outcome.plan, {outcome.certificate.objective});
    is_right = report && report->is_right() &&
               !(outcome.certificate.objective > limit_s * 1000 * (1 + 1e-9));
    verdict = report && report->is_right() ? "right" : "WRONG";
  }
  char rest[80];
  std::snprintf(rest, sizeof rest, "%8lld %12lld %9lld %s",
                static_cast<long long>(search->num_downsets),
                static_cast<long long>(search->num_pairs),
                static_cast<long long>(search->num_stages), verdict.c_str());
  print_row(name, std::string(to_string(outcome.status)), outcome.certificate.objective / 1000,
            published_s, outcome.certificate.lower_bound.value_or(NAN) / 1000, ms, published_ms,
            rest);
  return is_right;
}

bool run_pipedream(const std::string& folder, const PipeDreamRow& row, double time_limit_s) {
  const std::string file = folder + "/pipedream/" + row.name + ".txt";
  const auto text = io::read_text_file(file);
  if (!text) return true;  // not every profile is everywhere
  const auto profile = io::read_pipedream_graph(*text, file);
  if (!profile) {
    std::printf("%s\n", format_error(profile.error()).c_str());
    return false;
  }
  bool is_right = true;
  for (int i = 0; i < 4; ++i) {
    const int machines = i < 2 ? 4 : 16;
    const bool is_straight = i % 2 == 1;
    const std::string name =
        row.name + (" " + std::to_string(machines)) + (is_straight ? " straight" : "");
    const double published = row.values[i];
    if (!std::isnan(published)) {
      partition::PipeDreamOptions options;
      options.levels[0].num_machines = machines;
      options.straight_pipeline = is_straight;
      double value = NAN;
      std::int64_t num_states = 0;
      const double ms = time_of([&] {
        const auto answer = partition::plan_like_pipedream(*profile, options);
        if (!answer) return;
        value = answer->outcome.certificate.objective / 1000;
        num_states = answer->num_states;
      });
      print_row(name + " reference", "feasible", value, published, NAN, ms, row.wall_s * 1000,
                std::to_string(num_states) + " states");
      is_right = is_right && std::abs(value - published) <= 0.51e-6;
    }
    partition::PipelineOptions options;
    if (is_straight) options.max_data_parallel = 1;
    is_right = plan_one(name + " plan", partition::make_pipeline_model(*profile, machines, 1e6),
                        options, published, std::isnan(published) ? INFINITY : published + 0.51e-6,
                        row.wall_s * 1000, time_limit_s) &&
               is_right;
  }
  return is_right;
}

bool run_piper(const std::string& folder, const PiperRow& row, double time_limit_s) {
  const std::string file = folder + "/piper/" + row.name + ".json";
  const auto text = io::read_text_file(file);
  if (!text) return true;
  const auto input = io::read_piper(*text, file);
  if (!input) {
    std::printf("%s\n", format_error(input.error()).c_str());
    return false;
  }
  constexpr double kGiBytes = 1073741824;
  PipelineModel model = input->model;
  model.num_devices = row.devices;
  model.memory_cap = static_cast<Bytes>(row.memory_gib * kGiBytes);
  model.bandwidth = 25 * kGiBytes / 1000;
  partition::PipelineOptions options;
  char name[64];
  std::snprintf(name, sizeof name, "%s %d x %g GiB", row.name, row.devices, row.memory_gib);
  return plan_one(name, model, options, row.value_s,
                  std::isnan(row.value_s) ? INFINITY : row.value_s, row.cpu_s * 1000, time_limit_s);
}

int run(const std::string& folder, const std::string& part) {
  constexpr double kTimeLimitS = 60;
  const auto is_asked = [&](const std::string& name) {
    return name.find(part) != std::string::npos;
  };
  print_head();
  bool is_right = true;
  for (const PipeDreamRow& row : kPipeDream) {
    if (is_asked(row.name)) is_right = run_pipedream(folder, row, kTimeLimitS) && is_right;
  }
  for (const PiperRow& row : kPiper) {
    if (is_asked(row.name)) is_right = run_piper(folder, row, kTimeLimitS) && is_right;
  }
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("usage: pipeline_bench FOLDER [PART]\n");
    return 0;
  }
  return plimsoll::bench::run(argv[1], argc > 2 ? argv[2] : "");
}
