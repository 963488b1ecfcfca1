// What this build plans, to the last bit: a line a case, to be compared with another build's line.
//
// Value and bound as hexadecimal floats, the effort, and a digest of the plan (options and ranks)
// and of the prices that prove the bound. scripts/compare_builds.sh runs it in every build; nothing
// here reads a clock. Cases: every objective, narrow and wide, the reference's proposals as a
// start, tables of one kind and of many, unequal caps and speeds, pooled DDR, and infeasible.

#include <cstdio>
#include <string>
#include <vector>

#include "embedding/workloads.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/embedding/balanced_search.h"

namespace plimsoll::bench {
namespace {

using embedding::BalancedOptions;
using embedding::BalanceObjective;

class Digest {
 public:
  void add(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%a ", value);
    text_ += text;
  }
  void add(const std::vector<double>& values) {
    for (const double value : values) add(value);
    text_ += '\n';
  }
  template <class Number>
  void add(const std::vector<Number>& values) {
    for (const Number value : values) add(static_cast<double>(value));
    text_ += '\n';
  }
  std::string hex() const { return sha256_hex(text_).substr(0, 16); }

 private:
  std::string text_;
};

std::string digest_of(const embedding::PlacedProposal& plan) {
  Digest digest;
  digest.add(plan.options);
  digest.add(plan.first_rank);
  digest.add(plan.ranks);
  return digest.hex();
}

std::string digest_of(const balance::PlacementBound& bound) {
  Digest digest;
  for (const balance::BoundCase& part : bound.cases) {
    digest.add(part.value);
    digest.add(part.prices.theta);
    digest.add(part.prices.price);
    digest.add(part.prices.weight);
    for (const balance::WindowNode& node : part.windows.nodes) {
      digest.add({static_cast<double>(node.first_child), node.split,
                  static_cast<double>(node.class_index), static_cast<double>(node.proof)});
    }
    for (const balance::RoomProof& proof : part.windows.proofs) {
      digest.add({proof.room, proof.uniform_load, proof.multiplier, proof.function.parameter});
      digest.add(proof.value);
      digest.add(proof.price);
    }
  }
  return digest.hex();
}

bool run(const char* name, const embedding::PlanningProblem& problem,
         const BalancedOptions& options, const SearchOptions& search) {
  const auto result = embedding::plan_balanced(problem, options, search, {});
  if (!result) {
    std::fprintf(stderr, "%s: %s\n", name, format_error(result.error()).c_str());
    return false;
  }
  const auto& outcome = result->planning.outcome;
  std::printf("%-18s %-10s value %a bound %a effort %lld plan %s prices %s\n", name,
              std::string(to_string(outcome.status)).c_str(), outcome.certificate.objective,
              outcome.certificate.lower_bound.value_or(0), static_cast<long long>(result->effort),
              outcome.plan ? digest_of(result->planning.best).c_str() : "none",
              result->bound ? digest_of(*result->bound).c_str() : "none");
  std::fflush(stdout);
  return true;
}

bool run_all() {
  SearchOptions search;
  const auto rating = BalancedOptions::minimizing(BalanceObjective::kRating);
  const auto step = BalancedOptions::minimizing(BalanceObjective::kStep);
  const auto time = BalancedOptions::minimizing(BalanceObjective::kTime);
  const BalancedOptions kept;
  BalancedOptions wide = rating;
  wide.max_column_blocks = 8;
  BalancedOptions alone = rating;
  alone.uses_reference = false;
  BalancedOptions pooled = rating;
  pooled.bridge.pools_ddr = true;

  const auto m1 = make_problem(dcnv2(), 8, 80, 8192);
  const auto m2 = make_problem(dcnv2(), 16, 40, 4096);
  const auto equal_tables = make_problem(t510(), 16, 80, 4096);
  const auto few = make_problem(random_model(60, 1), 16, 40, 2048);
  const auto many = make_problem(random_model(1000, 1), 128, 80, 512);
  auto uneven = few;
  uneven.topology.devices[3].hbm /= 16;
  uneven.topology.devices[7].hbm /= 64;
  auto fast = few;
  fast.topology.device_speeds.assign(16, 1);
  fast.topology.device_speeds[0] = 1.5;
  fast.topology.device_speeds[9] = 0.75;
  const auto full = make_problem(t510(), 2, 1, 8192);

  search.effort = 300000;
  bool is_right = run("m1", m1, rating, search);
  is_right &= run("m1 step", m1, step, search);
  is_right &= run("m1 time", m1, time, search);
  is_right &= run("m1 default", m1, kept, search);
  is_right &= run("m1 wide", m1, wide, search);
  is_right &= run("m2", m2, rating, search);
  is_right &= run("m2 wide", m2, wide, search);
  is_right &= run("t510", equal_tables, alone, search);
  is_right &= run("60 tables", few, rating, search);
  is_right &= run("60, wide", few, wide, search);
  is_right &= run("60, time", few, time, search);
  is_right &= run("60, uneven caps", uneven, rating, search);
  is_right &= run("60, speeds", fast, alone, search);
  is_right &= run("60, pooled", few, pooled, search);
  is_right &= run("infeasible", full, alone, search);
  search.effort = 100000;
  is_right &= run("1000 tables", many, alone, search);
  search.seed = 7;
  is_right &= run("60, seed 7", few, rating, search);
  return is_right;
}

}  // namespace
}  // namespace plimsoll::bench

int main() { return plimsoll::bench::run_all() ? 0 : 1; }
