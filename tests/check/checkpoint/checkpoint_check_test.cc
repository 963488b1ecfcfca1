#include "plimsoll/check/checkpoint_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "check/checkpoint/step_simulator.h"
#include "check/toy_step.h"
#include "checkpoint/trace/step_trace.h"

namespace plimsoll::check {
namespace {

using checkpoint::CheckpointPolicy;
using checkpoint::CheckpointUnit;
using checkpoint::ModuleInfo;
using checkpoint::ModuleStats;
using checkpoint::OperatorChoice;
using checkpoint::UnitKind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Code = FindingCode;

ModuleStats toy_stats(int num_blocks = 3) {
  return *checkpoint::trace_step(toy_step(num_blocks), {1, 1});
}

// The first block keeps its first mm, the others nothing; the third is not a unit.
CheckpointPolicy toy_policy(const ModuleStats& stats) {
  return {{unit_of(stats, "Net.a", {true}), unit_of(stats, "Net.b")}};
}

CheckpointReport check(const ModuleStats& stats, const CheckpointPolicy& policy,
                       const CheckpointCheckOptions& options = {}) {
  auto report = check_checkpointing(stats, policy, options);
  EXPECT_TRUE(report) << format_error(report.error());
  return report ? *std::move(report) : CheckpointReport();
}

std::set<Code> codes(const CheckpointReport& report) {
  std::set<Code> found;
  for (const Finding& violation : report.violations()) found.insert(violation.code);
  return found;
}

std::set<Code> hazards(const CheckpointReport& report) {
  std::set<Code> found;
  for (const Finding& hazard : report.hazards()) found.insert(hazard.code);
  return found;
}

ModuleInfo& info(ModuleStats& stats, const std::string& fqn) {
  for (ModuleInfo& module : stats.mod_stats) {
    if (module.fqn == fqn) return module;
  }
  return stats.mod_stats[0];
}

//   post-order   embed  a.up  a.down  a  b.up  b.down  b  c.up  c.down  c  Net
//   gone before      0     0       0  0   128     128 128   384     384 384 384
// a frees 256 - 128 and b 256. Without a plan c.down peaks at 1374 = 190 parameters + 8 + 64 + 3 x
// 320 kept - 64 for the output + 4 loss + 64 + 128 gradients + 20; less 384.
TEST(CheckpointCheck, TakesEveryPositionByItself) {
  const ModuleStats stats = toy_stats();
  const CheckpointReport report = check(stats, toy_policy(stats));
  EXPECT_TRUE(report.is_right()) << report.violations()[0].message;
  EXPECT_THAT(report.hazards(), IsEmpty());
  EXPECT_EQ(report.discarded, 384);
  ASSERT_EQ(report.profile.size(), 11U);
  const std::vector<std::pair<std::string, Bytes>> gone = {
      {"Net.embed", 0},    {"Net.a.up", 0},     {"Net.a.down", 0}, {"Net.a", 0},
      {"Net.b.up", 128},   {"Net.b.down", 128}, {"Net.b", 128},    {"Net.c.up", 384},
      {"Net.c.down", 384}, {"Net.c", 384}};
  ModuleStats copy = stats;
  for (std::size_t p = 0; p < gone.size(); ++p) {
    EXPECT_EQ(report.profile[p], *info(copy, gone[p].first).total_peak_bw - gone[p].second)
        << gone[p].first;
  }
  EXPECT_EQ(*info(copy, "Net.c.down").total_peak_bw,
            190 + 8 + 64 + 3 * 320 - 64 + 4 + 64 + 128 + 20);
  EXPECT_EQ(report.peak, 1374 - 384);
  EXPECT_EQ(report.binding, "Net.c.down");
  const auto step = simulate_step(toy_step(3), {1, 1}, toy_policy(stats));
  ASSERT_TRUE(step);
  EXPECT_EQ(report.peak, step->peak.resident);
}

// Net.b.up, below Net.b, returns before Net.a does, and is entered again before it.
TEST(CheckpointCheck, KeepsApartUnitsThatReturnAmidEachOther) {
  ModuleStats stats = toy_stats();
  std::vector<std::string>& order = stats.mod_order.fw_post_order;
  order.erase(std::find(order.begin(), order.end(), "Net.b.up"));
  order.insert(std::find(order.begin(), order.end(), "Net.a"), "Net.b.up");
  CheckpointPolicy policy = toy_policy(stats);
  const CheckpointReport report = check(stats, policy);
  EXPECT_TRUE(report.is_right()) << report.violations()[0].message;
  EXPECT_EQ(report.discarded, 384);
  ModuleStats copy = stats;
  // Nothing is gone before Net.b.up.
  EXPECT_EQ(report.profile[3], *info(copy, "Net.b.up").total_peak_bw);
  std::swap(policy.units[0], policy.units[1]);
  EXPECT_THAT(codes(check(stats, policy)), ElementsAre(Code::kOrder));
  policy.units.push_back(unit_of(stats, "Net"));
  EXPECT_THAT(codes(check(stats, policy)), ::testing::Contains(Code::kUnitInsideUnit));
}

CheckpointUnit run_of(std::vector<std::string> fqns) {
  CheckpointUnit unit;
  unit.fqns = std::move(fqns);
  return unit;
}

struct Mutation {
  const char* what;
  std::function<void(CheckpointPolicy&, CheckpointCheckOptions&, ModuleStats&)> make;
  Code code;
};

// One change to a right plan each, and what the judge must call it.
const std::vector<Mutation>& mutations() {
  using P = CheckpointPolicy;
  using O = CheckpointCheckOptions;
  using S = ModuleStats;
  static const std::vector<Mutation> kMutations = {
      {"no module", [](P& p, O&, S&) { p.units[0].fqns.clear(); }, Code::kEmptyUnit},
      {"an unknown module", [](P& p, O&, S&) { p.units[0].fqns = {"Net.z"}; },
       Code::kUnknownModule},
      {"a unit twice", [](P& p, O&, S&) { p.units.push_back(p.units[1]); }, Code::kUnitTwice},
      {"a module twice in a run",
       [](P& p, O&, S&) {
         p.units[1].fqns = {"Net.b", "Net.b"};
       },
       Code::kUnitTwice},
      {"a unit inside a unit",
       [](P& p, O&, S& s) { p.units.insert(p.units.begin(), unit_of(s, "Net")); },
       Code::kUnitInsideUnit},
      {"a unit around a unit", [](P& p, O&, S& s) { p.units.push_back(unit_of(s, "Net")); },
       Code::kUnitInsideUnit},
      {"a nested unit outside", [](P& p, O&, S& s) { p.units[0].nested = {unit_of(s, "Net.c")}; },
       Code::kNestedOutside},
      {"order", [](P& p, O&, S&) { std::swap(p.units[0], p.units[1]); }, Code::kOrder},
      {"a leaf", [](P& p, O&, S&) { p.units[1].fqns = {"Net.b.up"}; }, Code::kLeafUnit},
      {"a repeated module", [](P&, O&, S& s) { s.repeated = {"Net.b"}; }, Code::kRepeatedUnit},
      {"no backward", [](P&, O&, S& s) { info(s, "Net.b").requires_grad = false; },
       Code::kNoGradient},
      {"not in ac_units", [](P&, O& o, S&) { o.ac_units = {"Net.a"}; }, Code::kUnitNotAllowed},
      {"an FSDP unit inside", [](P&, O& o, S&) { o.fsdp_units = {"Net.b.up"}; },
       Code::kContainsFsdpUnit},
      {"a gap in a run",
       [](P& p, O&, S&) {
         p.units = {run_of({"Net.a", "Net.c"})};
       },
       Code::kNotSiblings},
      {"a run against the order",
       [](P& p, O&, S&) {
         p.units = {run_of({"Net.b", "Net.a"})};
       },
       Code::kNotSiblings},
      {"a run of strangers",
       [](P& p, O&, S&) {
         p.units = {run_of({"Net.a.down", "Net.b"})};
       },
       Code::kNotSiblings},
      {"an operator too few", [](P& p, O&, S&) { p.units[0].ops.pop_back(); },
       Code::kOperatorsMismatch},
      {"an operator too many", [](P& p, O&, S&) { p.units[0].ops.push_back({}); },
       Code::kOperatorsMismatch},
      {"another name", [](P& p, O&, S&) { p.units[0].ops[1].op = "relu"; },
       Code::kOperatorsMismatch},
      {"another index", [](P& p, O&, S&) { p.units[0].ops[1].index = 2; },
       Code::kOperatorsMismatch},
      {"another occurrence", [](P& p, O&, S&) { p.units[0].ops[2].nth = 0; },
       Code::kOperatorsMismatch},
      {"no operators", [](P& p, O&, S&) { p.units[0].ops.clear(); }, Code::kMissingOperators},
      {"half an in-place group",
       [](P&, O&, S& s) {
         s.sac_stats[s.sac_stats_of["Net.a"]].inplace_ops = {{1, 0}};
       },
       Code::kGroupSplit},
      {"half of the random operators",
       [](P&, O&, S& s) {
         s.sac_stats[s.sac_stats_of["Net.a"]].rand_ops = {0, 1};
       },
       Code::kGroupSplit},
      {"a saved view",
       [](P&, O&, S& s) { s.sac_stats[s.sac_stats_of["Net.a"]].view_like_ops = {0}; },
       Code::kSavesView},
      {"a nested unit as large as its own",
       [](P& p, O&, S&) {
         p.units = {run_of({"Net.a", "Net.b"})};
         p.units[0].nested = {run_of({"Net.a", "Net.b"})};
       },
       Code::kNestedOutside},
      {"full with a saved operator", [](P& p, O&, S&) { p.units[0].kind = UnitKind::kFull; },
       Code::kWrongKind},
      {"saved random operators where there are none",
       [](P& p, O&, S&) { p.units[0].rng = checkpoint::RngHandling::kSave; }, Code::kWrongRng},
      {"one bit more", [](P& p, O&, S&) { p.units[0].ops[1].save = true; }, Code::kDiscarded},
      {"one bit less", [](P& p, O&, S&) { p.units[0].ops[0].save = false; }, Code::kDiscarded},
      {"a byte more", [](P& p, O&, S&) { ++p.units[0].discarded; }, Code::kDiscarded},
      {"a byte less", [](P& p, O&, S&) { --p.units[1].discarded; }, Code::kDiscarded},
      {"another ratio", [](P& p, O&, S&) { p.units[0].discard_ratio += 0.02; }, Code::kRatio},
      {"a ratio above 1", [](P& p, O&, S&) { p.units[1].discard_ratio = 1.0001; }, Code::kRatio},
      {"no ratio", [](P& p, O&, S&) { p.units[1].discard_ratio = std::nan(""); }, Code::kRatio},
      {"less time", [](P& p, O&, S&) { p.units[1].recompute_ms *= 0.999; }, Code::kRecompute},
      {"no time", [](P& p, O&, S&) { p.units[1].recompute_ms = std::nan(""); }, Code::kRecompute},
      {"a byte over the budget", [](P&, O& o, S&) { --*o.budget; }, Code::kOverBudget},
      {"a peak too low by a byte", [](P&, O& o, S&) { --*o.predicted_peak; }, Code::kPeakTooLow},
      {"a unit fewer",
       [](P& p, O& o, S&) {
         *o.recompute_ms -= p.units[1].recompute_ms;
         p.units.pop_back();
       },
       Code::kOverBudget},
      {"another total", [](P&, O& o, S&) { *o.recompute_ms += 1e-6; }, Code::kTotalRecompute},
      {"a peak too high by a byte", [](P&, O& o, S&) { ++*o.predicted_peak; }, Code::kPeakTooHigh},
      {"another baseline", [](P&, O& o, S&) { o.stated.baseline_peak = 1373; }, Code::kBaseline},
      {"another binding module", [](P&, O& o, S&) { o.stated.binding = "Net.a"; }, Code::kBinding},
      {"another byte in the profile", [](P&, O& o, S&) { ++o.stated.profile[3].second; },
       Code::kProfile},
      {"another module in the profile", [](P&, O& o, S&) { o.stated.profile[3].first = "Net"; },
       Code::kProfile},
      {"a shorter profile", [](P&, O& o, S&) { o.stated.profile.pop_back(); }, Code::kProfile},
      {"another objective", [](P&, O& o, S&) { o.stated.claims.certificate->objective *= 1.001; },
       Code::kObjective},
      {"another model", [](P&, O& o, S&) { o.stated.contradictions = {"another hash"}; },
       Code::kInputsMismatch},
      {"a bound above the plan",
       [](P&, O& o, S&) { o.stated.claims.certificate->lower_bound = 7.2e-4; },
       Code::kBoundNotProved},
      {"a bound above another plan",
       [](P&, O& o, S&) { o.stated.claims.certificate->lower_bound = 6.7e-4; },
       Code::kBoundNotProved},
      {"optimal without a bound",
       [](P&, O& o, S&) {
         o.stated.claims.status = SolveStatus::kOptimal;
         o.stated.claims.certificate->lower_bound.reset();
       },
       Code::kBoundNotProved},
      {"optimal with a gap", [](P&, O& o, S&) { o.stated.claims.status = SolveStatus::kOptimal; },
       Code::kBoundNotProved},
      {"infeasible beside a plan",
       [](P&, O& o, S&) { o.stated.claims.status = SolveStatus::kInfeasible; },
       Code::kBoundNotProved},
      {"a budget where nothing need be run again", [](P&, O& o, S&) { o.stated.budget = 1 << 20; },
       Code::kBoundNotProved},
  };
  return kMutations;
}

CheckpointCheckOptions promises_of(const CheckpointReport& report) {
  CheckpointCheckOptions options;
  options.budget = options.predicted_peak = report.peak;
  options.recompute_ms = report.recompute_ms;
  options.stated.baseline_peak = 1374;
  options.stated.binding = report.binding;
  const ModuleStats stats = toy_stats();
  for (std::size_t p = 0; p < report.profile.size(); ++p) {
    options.stated.profile.emplace_back(stats.mod_order.fw_post_order[p], report.profile[p]);
  }
  options.stated.claims = {true, true, SolveStatus::kFeasible,
                           Certificate{report.recompute_ms, 6.6e-4, parse_proof("told")}, ""};
  return options;
}

TEST(CheckpointCheck, CatchesEveryMutation) {
  const ModuleStats stats = toy_stats();
  const CheckpointPolicy policy = toy_policy(stats);
  const CheckpointCheckOptions options = promises_of(check(stats, policy));
  const CheckpointReport right = check(stats, policy, options);
  ASSERT_TRUE(right.is_right()) << right.violations()[0].message;
  EXPECT_EQ(right.certificate.status, CertificateStatus::kProved) << right.certificate.reason;
  for (const Mutation& mutation : mutations()) {
    SCOPED_TRACE(mutation.what);
    CheckpointPolicy changed = policy;
    CheckpointCheckOptions promised = options;
    ModuleStats given = stats;
    mutation.make(changed, promised, given);
    const CheckpointReport report = check(given, changed, promised);
    EXPECT_TRUE(codes(report).contains(mutation.code))
        << "found instead: "
        << (report.is_right() ? "nothing" : to_string(report.violations()[0].code));
  }
}

TEST(CheckpointCheck, HasAMutationForEveryViolation) {
  std::set<Code> tried;
  for (const Mutation& mutation : mutations()) tried.insert(mutation.code);
  std::vector<Code> wanted = {Code::kBoundNotProved, Code::kInputsMismatch};
  constexpr int kLast = static_cast<int>(Code::kObjective);
  for (int code = static_cast<int>(Code::kEmptyUnit); code <= kLast; ++code) {
    wanted.push_back(static_cast<Code>(code));
  }
  for (const Code code : wanted) EXPECT_TRUE(tried.contains(code)) << to_string(code);
}

// Net.a keeps its first operator and runs the others again.
TEST(CheckpointCheck, KnowsWhatBecomesOfRandomOperators) {
  const auto found = [](const std::vector<int>& random, checkpoint::RngHandling rng) {
    ModuleStats stats = toy_stats();
    stats.sac_stats[stats.sac_stats_of["Net.a"]].rand_ops = random;
    CheckpointPolicy policy = toy_policy(stats);
    policy.units[0].rng = rng;
    return codes(check(stats, policy));
  };
  using enum checkpoint::RngHandling;
  EXPECT_THAT(found({}, kRecompute), IsEmpty());
  EXPECT_THAT(found({1}, kRecompute), IsEmpty());
  EXPECT_THAT(found({1}, kSave), ElementsAre(Code::kWrongRng));
  EXPECT_THAT(found({0}, kSave), IsEmpty());
  EXPECT_THAT(found({0}, kRecompute), ElementsAre(Code::kWrongRng));
  // Saved in part some run again.
  EXPECT_THAT(found({0, 1}, kRecompute), ElementsAre(Code::kGroupSplit));
  EXPECT_THAT(found({0, 1}, kSave), ElementsAre(Code::kGroupSplit, Code::kWrongRng));
}

// ------------------------------------------------------------------------------------- hazards

TEST(CheckpointCheck, WarnsOfUnitsThatFreeNothing) {
  const ModuleStats stats = toy_stats();
  const CheckpointPolicy policy = {{unit_of(stats, "Net.a", {true, true})}};
  const CheckpointReport report = check(stats, policy);
  EXPECT_TRUE(report.is_right());
  EXPECT_THAT(hazards(report), ElementsAre(Code::kDiscardsNothing));
  CheckpointCheckOptions strict;
  strict.strict = true;
  EXPECT_THAT(codes(check(stats, policy, strict)), ElementsAre(Code::kHazard));
}

TEST(CheckpointCheck, WarnsOfASavedLastOperator) {
  const ModuleStats stats = toy_stats();
  const CheckpointReport report = check(stats, {{unit_of(stats, "Net.a", {false, false, true})}});
  EXPECT_TRUE(report.is_right());
  EXPECT_THAT(hazards(report), ElementsAre(Code::kSavesLastOperator));
}

TEST(CheckpointCheck, WarnsOfInPlaceGroups) {
  ModuleStats stats = toy_stats();
  checkpoint::SACStats& table =
      stats.sac_stats[static_cast<std::size_t>(stats.sac_stats_of["Net.a"])];
  table.inplace_ops = {{1, 0}};
  const CheckpointReport saved = check(stats, {{unit_of(stats, "Net.a", {true, true})}});
  EXPECT_TRUE(hazards(saved).contains(Code::kSavesInPlaceGroup));
  EXPECT_FALSE(
      hazards(check(stats, {{unit_of(stats, "Net.a")}})).contains(Code::kSavesInPlaceGroup));
  table.inplace_ops = {{0, 0}};
  EXPECT_TRUE(
      hazards(check(stats, {{unit_of(stats, "Net.a")}})).contains(Code::kChangesInputTwice));
  EXPECT_FALSE(hazards(check(stats, {{unit_of(stats, "Net.a", {true})}}))
                   .contains(Code::kChangesInputTwice));
}

// ------------------------------------------------------------------------------------- the rules

TEST(CheckpointCheck, PricesOperatorsByTheRule) {
  ModuleStats stats = toy_stats();
  CheckpointPolicy policy = toy_policy(stats);
  const checkpoint::SACStats& table =
      stats.sac_stats[static_cast<std::size_t>(stats.sac_stats_of["Net.b"])];
  ASSERT_EQ(table.func_names.size(), 3U);
  ASSERT_THAT(table.saved_autograd_ops, ElementsAre(0, 1, 2));
  const auto time_of = [&](PriceRule rule) {
    CheckpointCheckOptions options;
    options.price = rule;
    return check(stats, {{policy.units[1]}}, options).recompute_ms;
  };
  EXPECT_DOUBLE_EQ(time_of(PriceRule::kOperators), table.runtimes[0] + table.runtimes[1]);
  EXPECT_DOUBLE_EQ(time_of(PriceRule::kAllOperators),
                   table.runtimes[0] + table.runtimes[1] + table.runtimes[2]);
  for (checkpoint::SACStats& each : stats.sac_stats) each.saved_autograd_ops = {0};
  EXPECT_DOUBLE_EQ(time_of(PriceRule::kEarlyStop), table.runtimes[0]);
  CheckpointCheckOptions options;
  options.unit_overhead_ms = 2;
  policy.units[1].recompute_ms += 2;
  const CheckpointReport report = check(stats, {{policy.units[1]}}, options);
  EXPECT_TRUE(report.is_right());
  EXPECT_DOUBLE_EQ(report.recompute_ms, 2 + table.runtimes[0] + table.runtimes[1]);
}

// Two blocks as one unit free the output between them as well (64), and run whole modules again.
TEST(CheckpointCheck, JudgesRunsOfSiblings) {
  const ModuleStats stats = toy_stats();
  CheckpointUnit run;
  run.fqns = {"Net.a", "Net.b"};
  run.kind = UnitKind::kFull;
  run.discarded = 2 * 256 + 64;
  run.discard_ratio = 1;
  ModuleStats copy = stats;
  run.recompute_ms = info(copy, "Net.a").sac_runtime + info(copy, "Net.b").sac_runtime;
  const CheckpointReport report = check(stats, {{run}});
  EXPECT_TRUE(report.is_right()) << report.violations()[0].message;
  const auto plain = simulate_step(toy_step(3), {1, 1}, {});
  const auto step = simulate_step(toy_step(3), {1, 1}, {{run}});
  EXPECT_EQ(plain->kept_after_forward - step->kept_after_forward, report.discarded);
  EXPECT_EQ(report.peak, step->peak.resident);
  CheckpointCheckOptions fsdp;
  fsdp.fsdp_units = {"Net.b"};
  EXPECT_THAT(codes(check(stats, {{run}}, fsdp)), ElementsAre(Code::kContainsFsdpUnit));
  fsdp.fsdp_units = {"Net"};
  EXPECT_TRUE(check(stats, {{run}}, fsdp).is_right());
}

// Operators of a run stand one module after the other. The output between the two blocks counts
// where it is saved, though the table charges nothing for it, and takes its time where it is not;
// only the run's own output is never run again.
TEST(CheckpointCheck, JudgesOperatorsOfRuns) {
  ModuleStats stats = toy_stats();
  const std::vector<double> ms =
      stats.sac_stats[static_cast<std::size_t>(stats.sac_stats_of["Net.a"])].runtimes;
  CheckpointUnit run = unit_of(stats, "Net.a", {false, false, true});
  const CheckpointUnit second = unit_of(stats, "Net.b");
  run.fqns.push_back("Net.b");
  run.ops.insert(run.ops.end(), second.ops.begin(), second.ops.end());
  run.discarded = 2 * 256;
  run.discard_ratio = 512.0 / 576;
  run.recompute_ms = 2 * (ms[0] + ms[1]);
  EXPECT_TRUE(check(stats, {{run}}).is_right());
  const auto plain = simulate_step(toy_step(3), {1, 1}, {});
  const auto step = simulate_step(toy_step(3), {1, 1}, {{run}});
  EXPECT_EQ(plain->kept_after_forward - step->kept_after_forward, run.discarded);
  run.ops[2].save = false;
  run.kind = UnitKind::kFull;
  run.discarded += 64;
  run.discard_ratio = 1;
  run.recompute_ms += ms[2];
  EXPECT_TRUE(check(stats, {{run}}).is_right());
  CheckpointCheckOptions early;
  early.price = PriceRule::kEarlyStop;
  for (checkpoint::SACStats& table : stats.sac_stats) table.saved_autograd_ops = {0};
  EXPECT_DOUBLE_EQ(check(stats, {{run}}, early).recompute_ms, ms[0] + ms[1] + ms[2] + ms[0]);
}

TEST(CheckpointCheck, RunsLeavesOfARunAgainAsAWhole) {
  ModuleStats stats = toy_stats();
  CheckpointUnit run = run_of({"Net.embed", "Net.a"});
  run.kind = UnitKind::kFull;
  run.discarded = 256 + 64;
  run.discard_ratio = 1;
  run.recompute_ms =
      info(stats, "Net.embed").fw_runtime_per_module + info(stats, "Net.a").sac_runtime;
  const CheckpointReport report = check(stats, {{run}});
  EXPECT_TRUE(report.is_right()) << report.violations()[0].message;
  EXPECT_GT(info(stats, "Net.embed").fw_runtime_per_module, 0);
}

// Inside the run the first block is a unit again: its 256 bytes are gone for the second's backward,
// and count once for whatever follows.
TEST(CheckpointCheck, CountsNestedUnitsInsideTheirUnitOnly) {
  const ModuleStats stats = toy_stats();
  ModuleStats copy = stats;
  CheckpointUnit run;
  run.fqns = {"Net.a", "Net.b"};
  run.kind = UnitKind::kFull;
  run.discarded = 2 * 256 + 64;
  run.discard_ratio = 1;
  run.recompute_ms = info(copy, "Net.a").sac_runtime + info(copy, "Net.b").sac_runtime;
  run.nested = {unit_of(stats, "Net.a")};
  const CheckpointReport report = check(stats, {{run}});
  EXPECT_TRUE(report.is_right()) << report.violations()[0].message;
  EXPECT_EQ(report.profile[4], *info(copy, "Net.b.up").total_peak_bw - 256);
  EXPECT_EQ(report.profile[9], *info(copy, "Net.c").total_peak_bw - (2 * 256 + 64));
  EXPECT_EQ(report.discarded, 2 * 256 + 64);
  const auto step = simulate_step(toy_step(3), {1, 1}, {{run}});
  ASSERT_TRUE(step);
  EXPECT_EQ(report.peak, step->peak.resident);
}

// A saved output that autograd would not keep lies beside the unit's backward.
TEST(CheckpointCheck, MakesRoomForCopiesWhereAsked) {
  ModuleStats stats = toy_stats(1);
  const CheckpointPolicy policy = {{unit_of(stats, "Net.a", {true})}};
  CheckpointCheckOptions options;
  const Bytes plain = check(stats, policy, options).peak;
  for (checkpoint::SACStats& table : stats.sac_stats) table.saved_autograd_ops = {1};
  EXPECT_EQ(check(stats, policy, options).peak, plain);
  options.unit_room = true;
  EXPECT_EQ(check(stats, policy, options).peak, plain + 128);
}

// What stays is split; what is a rank's own stays whole.
TEST(CheckpointCheck, SplitsStateAmongRanks) {
  const ModuleStats stats = toy_stats();
  ModuleStats copy = stats;
  CheckpointCheckOptions options;
  options.world_size = 4;
  options.constant_bytes = 1000;
  const CheckpointReport report = check(stats, {}, options);
  const ModuleInfo& embed = info(copy, "Net.embed");
  EXPECT_EQ(embed.grad_total, 90);
  EXPECT_EQ(report.profile[0], *embed.total_peak_bw - 280 + 70 + 1000);
  EXPECT_EQ(report.peak, *stats.total_step_peak - 190 + 48 + 1000) << "190 / 4 rounded up";
}

// The step's peak lies in the embedding's backward, where 90 bytes of gradients lie already and are
// split, too. What is there at the loss is another figure.
TEST(CheckpointCheck, TakesTheLossByItselfWhereAModulePeaksHigher) {
  ModuleStats stats = toy_stats();
  info(stats, "Net.embed").total_peak_bw = stats.total_step_peak = 5000;
  stats.total_before_root_bw = 1300;
  CheckpointCheckOptions options;
  options.world_size = 4;
  CheckpointReport report = check(stats, {}, options);
  EXPECT_EQ(report.peak, 5000 - 280 + 70);
  EXPECT_EQ(report.binding, "Net.embed");
  stats.total_before_root_bw = 4990;
  report = check(stats, {}, options);
  EXPECT_EQ(report.peak, 4990 - 190 + 48);
  EXPECT_EQ(report.binding, "");
  // A forward that peaks there says so as well; without the figure the step's peak stands for it.
  info(stats, "Net.embed").total_peak_bw = 300;
  info(stats, "Net.b").total_peak_fw = 5000;
  EXPECT_EQ(check(stats, {}, options).peak, 4990 - 190 + 48);
  stats.total_before_root_bw.reset();
  EXPECT_EQ(check(stats, {}, options).peak, 5000 - 190 + 48);
}

TEST(CheckpointCheck, SeesForwardPeaksWhereAsked) {
  ModuleStats stats = toy_stats();
  info(stats, "Net.b").total_peak_fw = 5000;
  CheckpointCheckOptions options;
  EXPECT_LT(check(stats, toy_policy(stats), options).peak, 5000);
  options.forward_peak = true;
  const CheckpointReport report = check(stats, toy_policy(stats), options);
  EXPECT_EQ(report.peak, 5000 - 128);
  EXPECT_EQ(report.binding, "Net.b");
}

// The small hand-checked instance of upstream's model, in MiB and ms: budget 2.6 GiB needs 41.6 MiB
// before R, so R.a discards r = (41.6 + 256) / 1024 of its memory, at 4 * .4 * r.
ModuleStats tiny() {
  struct Row {
    const char* fqn;
    bool is_leaf;
    Bytes inside, total, temporary, gradients, parameters, memory;
    double ms;
  };
  const std::vector<Row> rows = {{"R", false, 1700, 2048, 256, 0, 400, 2000, 11},
                                 {"R.a", false, 768, 832, 192, 300, 100, 1024, 4},
                                 {"R.a.x", true, 700, 800, 150, 320, 80, 0, 0},
                                 {"R.b", false, 768, 1664, 192, 200, 100, 1024, 6},
                                 {"R.b.x", true, 700, 1632, 150, 220, 80, 0, 0},
                                 {"R.c", true, 100, 2048, 128, 0, 200, 0, 0}};
  ModuleStats stats;
  stats.name = "tiny";
  for (const Row& row : rows) {
    ModuleInfo module;
    module.fqn = row.fqn;
    module.is_leaf = row.is_leaf;
    module.act_fw_per_module = row.inside * kMiB;
    module.act_total = row.total * kMiB;
    module.act_grad_per_module = row.temporary * kMiB;
    module.grad_total = row.gradients * kMiB;
    module.param_per_module = row.parameters * kMiB;
    module.sac_memory = row.memory * kMiB;
    module.sac_runtime = row.ms;
    if (!row.is_leaf) {
      module.n_segments = 2;
      module.slopes = row.ms == 11 ? std::vector<double>{.5, 2} : std::vector<double>{.4, 1.6};
      module.intercepts = row.ms == 11 ? std::vector<double>{0, -.9} : std::vector<double>{0, -.6};
    }
    stats.mod_stats.push_back(module);
  }
  stats.mod_order.fw_pre_order = {"R", "R.a", "R.a.x", "R.b", "R.b.x", "R.c"};
  stats.mod_order.fw_post_order = {"R.a.x", "R.a", "R.b.x", "R.b", "R.c", "R"};
  return stats;
}

TEST(CheckpointCheck, JudgesByUpstreamsPeakAndFit) {
  CheckpointUnit unit;
  unit.fqns = {"R.a"};
  unit.discard_ratio = 0.2906;
  unit.discarded = 43620762;  // 2704 MiB less 2.6 GiB, rounded up
  unit.recompute_ms = 0.465;
  CheckpointCheckOptions options;
  options.peak = PeakRule::kTorch;
  options.price = PriceRule::kFit;
  options.budget = options.predicted_peak = 2791728742;
  const CheckpointReport report = check(tiny(), {{unit}}, options);
  EXPECT_TRUE(report.is_right());
  EXPECT_NEAR(report.recompute_ms, 0.465, 1e-9);
  EXPECT_EQ(report.peak, 2791728742);
  EXPECT_EQ(report.binding, "R");
  EXPECT_THAT(report.profile,
              ElementsAre(1670 * kMiB, 1724 * kMiB, 2402 * kMiB - 43620762, 2456 * kMiB - 43620762,
                          2576 * kMiB - 43620762, 2791728742));
  unit.recompute_ms = 0.46501;
  EXPECT_THAT(codes(check(tiny(), {{unit}}, options)), ElementsAre(Code::kRecompute));
  unit.discarded = 769 * kMiB;
  EXPECT_TRUE(codes(check(tiny(), {{unit}}, options)).contains(Code::kDiscarded));
  options.world_size = 4;
  EXPECT_EQ(check(tiny(), {}, options).peak, (2048 + 256 + 100) * kMiB);
}

TEST(CheckpointCheck, RefusesBadArguments) {
  const auto refused = [](const ModuleStats& stats, const CheckpointCheckOptions& options) {
    return !check_checkpointing(stats, {}, options).has_value();
  };
  CheckpointCheckOptions options;
  EXPECT_FALSE(refused(toy_stats(), options));
  EXPECT_TRUE(refused(tiny(), options)) << "no totals";
  ModuleStats partly = toy_stats();
  info(partly, "Net.a").total_peak_bw.reset();
  EXPECT_TRUE(refused(partly, options));
  partly = toy_stats();
  info(partly, "Net.a").total_peak_fw.reset();
  EXPECT_FALSE(refused(partly, options));
  options.forward_peak = true;
  EXPECT_TRUE(refused(partly, options));
  options = {};
  options.unit_room = true;
  EXPECT_TRUE(refused(partly, options));
  partly = toy_stats();
  info(partly, "Net.a").total_pre_bw.reset();
  EXPECT_TRUE(refused(partly, options));
  options = {};
  options.world_size = 0;
  EXPECT_TRUE(refused(toy_stats(), options));
  options = {};
  options.constant_bytes = -1;
  EXPECT_TRUE(refused(toy_stats(), options));
  options = {};
  options.unit_overhead_ms = -1;
  EXPECT_TRUE(refused(toy_stats(), options));
  EXPECT_TRUE(refused(ModuleStats(), {}));
}

}  // namespace
}  // namespace plimsoll::check
