// The balanced search where memory is tight: value, bound, gap, effort, time, of rating.
//
// tight_bench [--effort N] [--seed N] [--random COUNT] [--dump FOLDER] [NAME...]
//
// A line a case (TABLESxRANKS_HBM_DDR_SEED); without names those of docs/benchmarks.md; with
// `--random` so many drawn ones. With `--dump` each case is written instead, as the problem that
// tight_peer.py solves: ranks, caps, and of each unit its choices with their pieces.

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "balance/problem/placement_items.h"
#include "embedding/tight_workloads.h"
#include "plimsoll/embedding/balanced_search.h"

namespace plimsoll::bench {
namespace {

constexpr TightCase kCases[] = {{40, 8, .6, .55, 2},   {40, 8, .8, .4, 2},    {40, 8, .3, .9, 2},
                                {100, 16, .6, .55, 1}, {100, 16, .6, .55, 2}, {100, 16, .3, .9, 1},
                                {100, 64, 1.2, 0, 1}};

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// HBM alone 1.02 to 1.4, or HBM .3 to .9 with what is left of 1.15 to 1.4 on the host; 40 to 1,000
// tables, 8 to 128 ranks.
std::vector<TightCase> draw_cases(int count) {
  std::vector<TightCase> cases;
  PythonRandom random(15);
  const auto rounded = [](double x) { return std::nearbyint(100 * x) / 100; };
  for (int i = 0; i < count; ++i) {
    TightCase c;
    c.num_ranks = 8 << random.choose(5);
    c.num_tables = static_cast<int>(40 * std::pow(25, random.unit()));
    c.hbm = rounded(i % 2 == 0 ? 1.02 + .38 * random.unit() : .3 + .6 * random.unit());
    c.ddr = i % 2 == 0 ? 0 : rounded(1.15 + .25 * random.unit() - c.hbm);
    c.seed = static_cast<std::uint32_t>(1 + i);
    cases.push_back(c);
  }
  return cases;
}

bool dump(const TightCase& c, const std::string& folder) {
  auto options = embedding::BalancedOptions::minimizing(embedding::BalanceObjective::kRating);
  options.bridge.objective = embedding::BalanceObjective::kRating;
  const auto bridge = embedding::make_bounded_problem(make_tight_problem(c), options);
  std::FILE* file = std::fopen((folder + "/" + name_of(c) + ".json").c_str(), "w");
  if (!bridge || file == nullptr) return false;
  const balance::PlacementItems items = balance::make_placement_items(bridge->problem);
  const balance::Amounts& caps = bridge->problem.caps.front();
  std::fprintf(file, "{\"num_ranks\": %d, \"ranks_per_host\": %d, \"caps\": [%lld, %lld],\n",
               items.num_ranks, items.width, static_cast<long long>(caps[0]),
               static_cast<long long>(caps[1]));
  std::fprintf(file, "\"units\": [");
  for (int unit = 0; unit < items.num_units; ++unit) {
    std::fprintf(file, unit > 0 ? "],\n[" : "\n[");
    for (int k = items.first_choice[unit]; k < items.first_choice[unit + 1]; ++k) {
      const balance::PlacementItems::Choice& choice = items.choices[k];
      constexpr const char* kSpreads[] = {"device", "host", "uniform"};
      std::fprintf(file, "%s{\"spread\": \"%s\", \"num_pieces\": %d, \"pieces\": [",
                   k > items.first_choice[unit] ? ", " : "",
                   kSpreads[static_cast<int>(choice.spread)], choice.num_pieces);
      for (int i = 0; i < choice.num_records; ++i) {
        const std::size_t record = static_cast<std::size_t>(choice.first_record + i);
        std::fprintf(file, "%s[%.17g, %lld, %lld]", i > 0 ? ", " : "",
                     items.load[record * static_cast<std::size_t>(items.stride)],
                     static_cast<long long>(items.bytes[record][0]),
                     static_cast<long long>(items.bytes[record][1]));
      }
      std::fprintf(file, "]}");
    }
  }
  std::fprintf(file, "]]}\n");
  return std::fclose(file) == 0;
}

bool run(const TightCase& c, const SearchOptions& search) {
  auto options = embedding::BalancedOptions::minimizing(embedding::BalanceObjective::kRating);
  options.bridge.objective = embedding::BalanceObjective::kRating;
  const double start = processor_seconds();
  const auto result = embedding::plan_balanced(make_tight_problem(c), options, search, {});
  if (!result) {
    std::fprintf(stderr, "%s\n", format_error(result.error()).c_str());
    return false;
  }
  const auto& outcome = result->planning.outcome;
  std::printf("%-22s %-10s value %.4f bound %.4f gap %.2f%% effort %lld processor %.2f s | %s\n",
              name_of(c).c_str(), std::string(to_string(outcome.status)).c_str(),
              outcome.certificate.objective, outcome.certificate.lower_bound.value_or(0),
              100 * outcome.certificate.gap().value_or(0), static_cast<long long>(result->effort),
              processor_seconds() - start, to_string(outcome.certificate.proof).c_str());
  std::fflush(stdout);
  return true;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using plimsoll::bench::TightCase;
  plimsoll::SearchOptions search;
  std::vector<TightCase> cases(std::begin(plimsoll::bench::kCases),
                               std::end(plimsoll::bench::kCases));
  std::vector<std::string> names;
  std::string folder;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--effort" && has_value) {
      search.effort = std::atoll(argv[++i]);
    } else if (word == "--seed" && has_value) {
      search.seed = static_cast<std::uint64_t>(std::atoll(argv[++i]));
    } else if (word == "--random" && has_value) {
      cases = plimsoll::bench::draw_cases(std::atoi(argv[++i]));
    } else if (word == "--dump" && has_value) {
      folder = argv[++i];
    } else {
      names.push_back(word);
    }
  }
  for (const std::string& name : names) {
    const bool is_known = std::any_of(cases.begin(), cases.end(),
                                      [&](const TightCase& c) { return name_of(c) == name; });
    if (is_known) continue;
    std::fprintf(stderr, "tight_bench: no case %s; the first is %s\n", name.c_str(),
                 cases.empty() ? "" : name_of(cases.front()).c_str());
    return 2;
  }
  bool is_right = true;
  for (const TightCase& c : cases) {
    const bool is_named = std::find(names.begin(), names.end(), name_of(c)) != names.end();
    if (!names.empty() && !is_named) continue;
    is_right &= folder.empty() ? plimsoll::bench::run(c, search) : plimsoll::bench::dump(c, folder);
  }
  return is_right ? 0 : 1;
}
