// Searches whose answers the reference gave: the cases of tests/data/dynamic_programming.json and
// the tables of its own tests.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "embedding/hand_made_options.h"
#include "embedding/vectors.h"
#include "plimsoll/embedding/enumerator.h"

namespace plimsoll::embedding {

struct DynamicProgrammingCase {
  OptionSet options;
  OptionSet swapped;  // hbm and ddr exchanged
  topology::Topology topology;
  topology::Topology swapped_topology;
  std::int64_t hbm_bins = 1, ddr_bins = 1;  // per device
  std::string error;                        // of the one-axis program
  std::vector<Proposal> one_axis, two_axes;
};

inline std::vector<DynamicProgrammingCase> dynamic_programming_cases() {
  std::ifstream file(PLIMSOLL_TEST_DATA "/dynamic_programming.json");
  const nlohmann::json document = nlohmann::json::parse(file);
  std::vector<DynamicProgrammingCase> cases;
  for (const nlohmann::json& record : document.at("cases")) {
    HandMadeTables tables, swapped;
    for (const nlohmann::json& table : record.at("tables")) {
      tables.emplace_back();
      swapped.emplace_back();
      for (const nlohmann::json& o : table) {
        tables.back().push_back({o[0], o[1], o[2], o[3]});
        swapped.back().push_back({o[1], o[0], o[2], o[3]});
      }
    }
    std::vector<Storage> devices, swapped_devices;
    for (const nlohmann::json& device : record.at("devices")) {
      devices.push_back({.hbm = device[0], .ddr = device[1]});
      swapped_devices.push_back({.hbm = device[1], .ddr = device[0]});
    }
    DynamicProgrammingCase& made = cases.emplace_back();
    made.options = make_options(tables);
    made.swapped = make_options(swapped);
    made.topology = make_devices(devices, record.at("local_world_size"));
    made.swapped_topology = make_devices(swapped_devices, record.at("local_world_size"));
    made.hbm_bins = record.at("hbm_bins");
    made.ddr_bins = record.at("ddr_bins");
    if (!record.at("error").is_null()) made.error = record.at("error");
    const auto read = [&](const nlohmann::json& list) {
      const std::vector<std::size_t> order = list.at("table_order");
      std::vector<Proposal> proposals;
      for (const nlohmann::json& choices : list.at("proposals")) {
        Proposal& proposal = proposals.emplace_back();
        for (std::size_t i = 0; i < order.size(); ++i) {
          proposal.push_back(made.options.tables[order[i]].first_option +
                             choices[i].get<std::int32_t>());
        }
      }
      return proposals;
    };
    made.one_axis = read(record.at("one_axis"));
    made.two_axes = read(record.at("two_axes"));
  }
  return cases;
}

// 100 x 10, 200 x 20, 300 x 30; 1,000 x 10 up to 10^9 x 30, 120 GB.
inline std::vector<TableProfile> small_shapes() {
  return {table_of(100, 10), table_of(200, 20), table_of(300, 30)};
}
inline std::vector<TableProfile> huge_shapes() {
  return {table_of(1000, 10), table_of(1000000, 20), table_of(1000000000, 30)};
}

// What a proposer says of such tables at the root, one feature each, on two ranks: types and
// kernels in the tables' order, and the sum of perf over them in the proposal's.
inline std::vector<std::string> describe_proposals(Proposer& proposer,
                                                   const std::vector<TableProfile>& shapes,
                                                   std::optional<Bytes> hbm_cap,
                                                   std::int64_t batch_size,
                                                   std::vector<double>* total_perf = nullptr) {
  const CostModel cost_model = cost_model_named("torchrec-ref");
  TopologySpec spec = cluster(2, 2);
  spec.hbm_cap = hbm_cap;
  const Topology topology = build(spec, cost_model);
  Module module;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Table table;
    table.name = "table_" + std::to_string(i + 1);
    table.num_embeddings = shapes[i].shape.rows;
    table.embedding_dim = shapes[i].shape.columns;
    table.feature_names = {"feature_" + std::to_string(i + 1)};
    module.tables.push_back(table);
  }
  Model model;
  model.modules.push_back(module);
  EnumerationOptions enumeration_options;
  enumeration_options.batch_size = batch_size;
  auto enumeration = enumerate(Estimator(cost_model, topology, {}), model, enumeration_options);
  EXPECT_TRUE(enumeration.has_value());
  if (!enumeration) return {};
  std::vector<std::string> texts;
  for (const Proposal& proposal : load_and_drain(proposer, enumeration->options, topology)) {
    std::vector<std::string> words(shapes.size());
    double perf = 0;
    for (const std::int32_t index : proposal) {
      const Option& option = enumeration->options.options[static_cast<std::size_t>(index)];
      words[static_cast<std::size_t>(option.table)] =
          std::string(abbreviation(option.sharding_type)) + " " +
          std::string(to_string(option.compute_kernel));
      perf += enumeration->options.shards(index).total_perf();
    }
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    texts.push_back(text);
    if (total_perf != nullptr) total_perf->push_back(perf);
  }
  return texts;
}

}  // namespace plimsoll::embedding
