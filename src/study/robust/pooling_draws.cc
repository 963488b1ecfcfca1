#include "study/robust/pooling_draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "core/random.h"
#include "core/suggest.h"

namespace plimsoll::study {
namespace {

constexpr double kDeviateOfP95 = 1.6448536269514722;

// Coefficients of [1], highest power first.
double polynomial(const double (&coefficients)[8], double x) {
  double value = 0;
  for (const double coefficient : coefficients) value = value * x + coefficient;
  return value;
}

const PoolingDistribution* find(const PoolingForecast& forecast, const DrawnTable& table) {
  const auto found = forecast.tables.find(table.name);
  return found == forecast.tables.end() ? nullptr : &found->second;
}

// Of a table by quantiles; nothing of one that samples give.
std::vector<double> at_deviate(const PoolingForecast& forecast, const DrawnTable& table, double z) {
  const PoolingDistribution* distribution = find(forecast, table);
  std::vector<double> factors = distribution == nullptr ? table.factors : distribution->p50;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    const double ratio = distribution == nullptr ? forecast.others_p95_over_p50.value_or(1)
                                                 : distribution->p95[f] / distribution->p50[f];
    factors[f] *= std::exp(z * std::log(ratio) / kDeviateOfP95);
  }
  return factors;
}

bool is_dynamic(const embedding::Model& model, const embedding::TableOptions& table) {
  const embedding::Module& module = model.modules[static_cast<std::size_t>(table.module)];
  return module.tables[static_cast<std::size_t>(table.table)].dynamic_embedding.has_value();
}

bool is_number(double value) { return value >= 0 && std::isfinite(value); }

Result<void> validate_distribution(const PoolingDistribution& distribution, std::size_t features,
                                   const std::string& place) {
  const auto refuse = [&place](std::string message, const char* remedy) {
    return fail(ErrorCode::kValue, place, std::move(message), remedy);
  };
  const bool has_quantiles = !distribution.p50.empty() || !distribution.p95.empty();
  if (has_quantiles == !distribution.samples.empty()) {
    return refuse("neither both quantiles nor samples alone", "give p50 and p95, or samples");
  }
  std::vector<std::size_t> lengths;
  if (has_quantiles) lengths = {distribution.p50.size(), distribution.p95.size()};
  for (const auto& sample : distribution.samples) lengths.push_back(sample.size());
  for (const std::size_t length : lengths) {
    if (length == features) continue;
    return refuse(fmt::format("{} pooling factors of {} features", length, features),
                  "give one number for each feature of the table");
  }
  for (std::size_t f = 0; f < distribution.p50.size(); ++f) {
    const double p50 = distribution.p50[f];
    const double p95 = distribution.p95[f];
    if (!(p50 > 0) || !(p95 >= p50) || !std::isfinite(p95)) {
      return refuse(fmt::format("p50 {:.6g} and p95 {:.6g}", p50, p95),
                    "give quantiles with 0 < p50 <= p95");
    }
  }
  for (const auto& sample : distribution.samples) {
    if (std::all_of(sample.begin(), sample.end(), is_number)) continue;
    return refuse("a sample that is negative or no number", "give pooling factors of 0 or more");
  }
  return {};
}

}  // namespace

double normal_quantile(double p) {
  static constexpr double kA[] = {
      2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
      13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608};
  static constexpr double kB[] = {
      5226.495278852545925,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
      5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1};
  static constexpr double kC[] = {7.7454501427834140764e-4, .0227238449892691845833,
                                  .24178072517745061177,    1.27045825245236838258,
                                  3.64784832476320460504,   5.7694972214606914055,
                                  4.6303378461565452959,    1.42343711074968357734};
  static constexpr double kD[] = {1.05075007164441684324e-9, 5.475938084995344946e-4,
                                  .0151986665636164571966,   .14810397642748007459,
                                  .68976733498510000455,     1.6763848301838038494,
                                  2.05319162663775882187,    1};
  static constexpr double kE[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                  .0012426609473880784386,   .026532189526576123093,
                                  .29656057182850489123,     1.7848265399172913358,
                                  5.4637849111641143699,     6.6579046435011037772};
  static constexpr double kF[] = {2.04426310338993978564e-15, 1.4215117583164458887e-7,
                                  1.8463183175100546818e-5,   7.868691311456132591e-4,
                                  .0148753612908506148525,    .13692988092273580531,
                                  .59983220655588793769,      1};
  const double q = p - .5;
  if (std::abs(q) <= .425) {
    const double r = .180625 - q * q;
    return q * polynomial(kA, r) / polynomial(kB, r);
  }
  const double tail = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double z = tail <= 5 ? polynomial(kC, tail - 1.6) / polynomial(kD, tail - 1.6)
                             : polynomial(kE, tail - 5) / polynomial(kF, tail - 5);
  return q < 0 ? -z : z;
}

Result<void> validate_forecast(const PoolingForecast& forecast,
                               const std::vector<DrawnTable>& tables) {
  std::optional<std::size_t> num_samples;
  for (const auto& [name, distribution] : forecast.tables) {
    const std::string place = "pooling/" + name;
    const auto is_it = [&name = name](const DrawnTable& table) { return table.name == name; };
    const auto table = std::find_if(tables.begin(), tables.end(), is_it);
    if (table == tables.end()) {
      std::vector<std::string> known;
      for (const DrawnTable& each : tables) known.push_back(each.name);
      return fail(ErrorCode::kNotFound, place, "the model has no such table",
                  "name a table; " + suggest(name, known));
    }
    PLIMSOLL_RETURN_IF_ERROR(validate_distribution(distribution, table->factors.size(), place));
    if (!forecast.joint_samples || distribution.samples.empty()) continue;
    if (num_samples.value_or(distribution.samples.size()) != distribution.samples.size()) {
      return fail(ErrorCode::kValue, place,
                  fmt::format("{} joint samples, and {} of another table",
                              distribution.samples.size(), *num_samples),
                  "give every table as many samples, or leave joint_samples out");
    }
    num_samples = distribution.samples.size();
  }
  const double ratio = forecast.others_p95_over_p50.value_or(1);
  if (!(ratio >= 1) || !std::isfinite(ratio)) {
    return fail(ErrorCode::kValue, "pooling", fmt::format("a p95 of {:.6g} times the p50", ratio),
                "give a ratio of at least 1");
  }
  return {};
}

std::vector<Factors> draw_factors(const PoolingForecast& forecast,
                                  const std::vector<DrawnTable>& tables, int num_scenarios,
                                  std::uint64_t seed, std::uint64_t stream) {
  SplitMix64 streams(seed);
  for (std::uint64_t i = 0; i < stream; ++i) streams.next();
  SplitMix64 random(streams.next());
  std::vector<Factors> scenarios(static_cast<std::size_t>(num_scenarios));
  for (Factors& factors : scenarios) {
    const double joint = random.unit();
    std::map<std::string_view, double> own_of;  // tables of one name are one to the planner
    for (const DrawnTable& table : tables) {
      const auto [entry, is_new] = own_of.try_emplace(table.name, 0);
      if (is_new) entry->second = random.unit();
      const double own = entry->second;
      const PoolingDistribution* distribution = find(forecast, table);
      if (distribution == nullptr || distribution->samples.empty()) {
        constexpr double kHalfStep = 0x1p-54;  // of the uniform numbers: never 0
        factors.push_back(at_deviate(forecast, table, normal_quantile(own + kHalfStep)));
        continue;
      }
      const double at = forecast.joint_samples ? joint : own;
      const auto count = static_cast<double>(distribution->samples.size());
      factors.push_back(distribution->samples[static_cast<std::size_t>(at * count)]);
    }
  }
  return scenarios;
}

Factors mean_of(const std::vector<Factors>& scenarios) {
  Factors mean = scenarios.front();
  for (std::size_t s = 1; s < scenarios.size(); ++s) {
    for (std::size_t t = 0; t < mean.size(); ++t) {
      for (std::size_t f = 0; f < mean[t].size(); ++f) mean[t][f] += scenarios[s][t][f];
    }
  }
  for (std::vector<double>& table : mean) {
    for (double& factor : table) factor /= static_cast<double>(scenarios.size());
  }
  return mean;
}

Factors largest_of(const std::vector<Factors>& scenarios) {
  Factors largest = scenarios.front();
  for (const Factors& factors : scenarios) {
    for (std::size_t t = 0; t < largest.size(); ++t) {
      for (std::size_t f = 0; f < largest[t].size(); ++f) {
        largest[t][f] = std::max(largest[t][f], factors[t][f]);
      }
    }
  }
  return largest;
}

std::vector<double> high_factors(const PoolingForecast& forecast, const DrawnTable& table) {
  const PoolingDistribution* distribution = find(forecast, table);
  if (distribution == nullptr || distribution->samples.empty()) {
    return at_deviate(forecast, table, kDeviateOfP95);
  }
  std::vector<double> largest(table.factors.size(), 0);
  for (const auto& sample : distribution->samples) {
    for (std::size_t f = 0; f < largest.size(); ++f) largest[f] = std::max(largest[f], sample[f]);
  }
  return largest;
}

Factors quantile_of(const std::vector<Factors>& scenarios, double level) {
  Factors high = scenarios.front();
  std::vector<double> values(scenarios.size());
  for (std::size_t t = 0; t < high.size(); ++t) {
    for (std::size_t f = 0; f < high[t].size(); ++f) {
      for (std::size_t s = 0; s < scenarios.size(); ++s) values[s] = scenarios[s][t][f];
      high[t][f] = measure_risk(RiskMeasure::kQuantile, level, values);
    }
  }
  return high;
}

embedding::PlanningProblem with_factors(const embedding::PlanningProblem& problem,
                                        const embedding::OptionSet& options,
                                        const Factors& factors) {
  embedding::PlanningProblem changed = problem;
  embedding::EnumerationOptions& enumeration = changed.enumeration;
  for (std::size_t t = 0; t < options.tables.size(); ++t) {
    const embedding::TableOptions& table = options.tables[t];
    changed.model.constraints[table.name].pooling_factors = factors[t];
    // Constraints by fqn, and those of all tables, win over the model's (find_constraints).
    const auto own = enumeration.fqn_constraints.find(table.fqn);
    if (own != enumeration.fqn_constraints.end()) {
      own->second.pooling_factors = factors[t];
    } else if (enumeration.global_constraints && !is_dynamic(problem.model, table)) {
      auto& added = enumeration.fqn_constraints[table.fqn] = *enumeration.global_constraints;
      added.pooling_factors = factors[t];
    }
  }
  return changed;
}

}  // namespace plimsoll::study
