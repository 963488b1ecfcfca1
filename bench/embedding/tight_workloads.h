// Seeded models whose memory is tight, as Python's `random` makes them, so that a peer in Python
// plans the same ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "plimsoll/embedding/planner.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::bench {

// Python's random.Random(seed) for 0 <= seed < 2^32: the Mersenne Twister, seeded by an array [1].
// [1] M. Matsumoto, T. Nishimura, "mt19937ar.c", 2002,
// http://www.math.sci.hiroshima-u.ac.jp/m-mat/MT/MT2002/emt19937ar.html
class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed) {
    fill(19650218);
    std::size_t i = 1;
    for (std::size_t k = 0; k < kSize; ++k, step(i)) {
      state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525U)) + seed;
    }
    for (std::size_t k = 1; k < kSize; ++k, step(i)) {
      state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941U)) -
                  static_cast<std::uint32_t>(i);
    }
    state_[0] = 0x80000000U;
  }

  double unit() {
    const std::uint32_t high = next() >> 5;
    const std::uint32_t low = next() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

  // random.choice of `count` things, count < 2^32: the index.
  std::uint32_t choose(std::uint32_t count) {
    int bits = 0;
    while (count >> bits != 0) ++bits;
    std::uint32_t drawn = count;
    while (drawn >= count) drawn = next() >> (32 - bits);
    return drawn;
  }

 private:
  static constexpr std::size_t kSize = 624, kShift = 397;

  void fill(std::uint32_t seed) {
    state_[0] = seed;
    for (std::size_t i = 1; i < kSize; ++i) {
      state_[i] =
          1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<std::uint32_t>(i);
    }
  }

  void step(std::size_t& i) {
    if (++i < kSize) return;
    state_[0] = state_[kSize - 1];
    i = 1;
  }

  std::uint32_t next() {
    if (at_ == kSize) {
      for (std::size_t i = 0; i < kSize; ++i) {
        const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % kSize] & 0x7fffffffU);
        state_[i] = state_[(i + kShift) % kSize] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfU : 0);
      }
      at_ = 0;
    }
    std::uint32_t y = state_[at_++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
  }

  std::array<std::uint32_t, kSize> state_{};
  std::size_t at_ = kSize;
};

// Room of each tier: the share of all tables' bytes (float32 weights alone), over the ranks.
struct TightCase {
  int num_tables = 0;
  int num_ranks = 0;
  double hbm = 0, ddr = 0;
  std::uint32_t seed = 0;
};

inline std::string name_of(const TightCase& c) {
  char text[64];
  std::snprintf(text, sizeof text, "%dx%d_%g_%g_%u", c.num_tables, c.num_ranks, c.hbm, c.ddr,
                c.seed);
  return text;
}

// Rows exp(uniform(log 1e3, log 1e7)), 16 to 256 columns, pooling 100 ** uniform(0, 1) to one
// digit; hosts of 8, 1,024 samples a rank, nothing reserved, TorchRec 1.8.
inline embedding::PlanningProblem make_tight_problem(const TightCase& c) {
  PythonRandom random(c.seed);
  embedding::PlanningProblem problem;
  embedding::Module module;
  double bytes = 0;
  for (int t = 0; t < c.num_tables; ++t) {
    embedding::Table table;
    table.name = "t" + std::to_string(t);
    const double low = std::log(1e3), high = std::log(1e7);
    table.num_embeddings = static_cast<std::int64_t>(std::exp(low + (high - low) * random.unit()));
    table.embedding_dim = std::int64_t{16} << random.choose(5);
    bytes += 4.0 * static_cast<double>(table.num_embeddings * table.embedding_dim);
    module.tables.push_back(table);
  }
  for (const embedding::Table& table : module.tables) {
    const double ids = std::nearbyint(10 * std::pow(100.0, random.unit())) / 10;
    problem.model.constraints[table.name].pooling_factors = {ids};
  }
  problem.model.modules.push_back(std::move(module));
  problem.cost_model = *embedding::find_cost_model("torchrec-1.8");
  problem.batch_size = 1024;
  problem.reservation.kind = embedding::ReservationKind::kFixedPercentage;
  problem.reservation.percentage = 0;
  topology::TopologySpec spec;
  spec.world_size = c.num_ranks;
  spec.local_world_size = std::min(8, c.num_ranks);
  spec.hbm_cap = static_cast<Bytes>(c.hbm * bytes / c.num_ranks);
  spec.ddr_cap = static_cast<Bytes>(c.ddr * bytes / c.num_ranks) + 1;
  problem.topology = *topology::make_topology(spec, problem.cost_model.zero_cap_is_default,
                                              problem.cost_model.ssd_tier);
  return problem;
}

}  // namespace plimsoll::bench
