// Documents with random damage: every reader must answer with a value or an error.
#include <gtest/gtest.h>

#include "io/documents/pipeline_plan_json.h"
#include "io/import/aot_partition_json.h"
#include "io/import/dnn_partitioning_json.h"
#include "io/import/foreign_plan.h"
#include "io/import/pipedream_graph.h"
#include "io/import/piper_json.h"
#include "io/random_checkpoint_documents.h"
#include "io/random_documents.h"
#include "io/random_pipeline_documents.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/cost_graph_json.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/io/topology_json.h"

namespace plimsoll::io {
namespace {

// Flips, drops, doubles and swaps bytes, and plants tokens that readers stumble over.
std::string mutate(std::string text, Random& random) {
  static const char* const kTokens[] = {"null",
                                        "-1",
                                        "9223372036854775808",
                                        "18446744073709551616",
                                        "1e308",
                                        "1e999",
                                        "{",
                                        "[",
                                        "]",
                                        "}",
                                        "\"\"",
                                        "\"count\": 1000000,",
                                        "\"80 GiB\"",
                                        "\xff",
                                        "\\u0000",
                                        "[[[[[[[[",
                                        "NaN",
                                        ",,"};
  for (std::int64_t i = 1 + random.below(4); i > 0 && !text.empty(); --i) {
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())));
    switch (random.below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 1:
        text.erase(at, 1 + static_cast<std::size_t>(random.below(8)));
        break;
      case 2:
        text.insert(at, text.substr(at, static_cast<std::size_t>(random.below(40))));
        break;
      case 3:
        text.insert(at, kTokens[random.below(std::size(kTokens))]);
        break;
      case 4: {
        // Puts a token where a value was.
        const std::size_t colon = text.find(": ", at);
        if (colon == std::string::npos) break;
        const std::size_t end = std::min(text.find_first_of(",}\n", colon), text.size());
        text.replace(colon + 2, end - std::min(end, colon + 2),
                     kTokens[random.below(std::size(kTokens))]);
        break;
      }
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

template <class T>
void expect_placed(const Result<T>& result, std::int64_t& num_errors) {
  if (result.has_value()) return;
  ++num_errors;
  EXPECT_TRUE(result.error().place.starts_with("f.json#")) << format_error(result.error());
  EXPECT_FALSE(result.error().message.empty());
  EXPECT_NE(result.error().code, ErrorCode::kInternal);
}

void read_all(const std::string& text, const ForeignPlanContext& context,
              std::int64_t& num_errors) {
  expect_placed(read_model(text, "f.json"), num_errors);
  expect_placed(read_constraints(text, "f.json"), num_errors);
  expect_placed(read_topology(text, "f.json"), num_errors);
  expect_placed(read_any_plan(text, "f.json", context), num_errors);
  expect_placed(read_dnn_partitioning(text, "f.json"), num_errors);
  expect_placed(read_placement(text, "f.json"), num_errors);
  expect_placed(read_fx_graph(text, "f.json"), num_errors);
  expect_placed(read_cost_graph(text, "f.json"), num_errors);
}

TEST(Readers, AnswerEveryDamagedDocument) {
  topology::Topology topology;
  topology.world_size = 4;
  topology.local_world_size = 2;
  topology.devices.resize(4);
  const embedding::CostModel cost_model = embedding::default_cost_model();
  const auto model = load_shipped_model("mlperf-dlrm-dcnv2");
  ASSERT_TRUE(model.has_value());
  const ForeignPlanContext context{*model, topology, cost_model};
  std::vector<std::string> texts;
  for (const ShippedDocument& shipped : shipped_models()) texts.emplace_back(shipped.text);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    texts.push_back(write_model(random_model(random)));
    texts.push_back(write_constraints(random_constraint_map(random)));
    texts.push_back(write_topology(random_topology(random)));
    texts.push_back(write_answer(random_answer(random)));
    const embedding::ShardingPlan plan = random_plan(random);
    texts.push_back(write_plan(plan));
    texts.push_back(write_torchrec_plan(plan));
    texts.push_back(write_easyrec_plan(plan));
    texts.push_back(write_dnn_partitioning(random_dnn_partitioning(random)).value());
    texts.push_back(write_placement(random_placement(random)));
    texts.push_back(write_fx_graph(random_fx_graph(random)));
    texts.push_back(write_cost_graph(random_cost_graph(random)).value());
  }
  std::int64_t num_documents = 0;
  std::int64_t num_errors = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    for (const std::string& text : texts) {
      read_all(mutate(text, random), context, num_errors);
      ++num_documents;
    }
  }
  EXPECT_GT(num_documents, 5000);
  EXPECT_GT(num_errors, 4 * num_documents);  // A document is of one kind at most.
}

TEST(CheckpointReaders, AnswerEveryDamagedDocument) {
  std::vector<std::string> texts;
  texts.push_back(
      read_text_file(PLIMSOLL_TEST_DATA "/checkpointing/min_cut_information.json").value_or(""));
  ASSERT_FALSE(texts.back().empty());
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    texts.push_back(write_module_stats(random_module_stats(random)));
    texts.push_back(write_sac_stats(random_sac_stats(random)));
    texts.push_back(write_checkpoint_answer(random_checkpoint_answer(random)));
  }
  std::int64_t num_documents = 0;
  std::int64_t num_errors = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    for (const std::string& text : texts) {
      const std::string damaged = mutate(text, random);
      expect_placed(read_module_stats(damaged, "f.json"), num_errors);
      expect_placed(read_sac_stats(damaged, "f.json"), num_errors);
      expect_placed(read_checkpoint_answer(damaged, "f.json"), num_errors);
      expect_placed(read_aot_partition(damaged, "f.json"), num_errors);
      ++num_documents;
    }
  }
  EXPECT_GT(num_errors, 3 * num_documents);
}

TEST(PipelineReaders, AnswerEveryDamagedDocument) {
  std::int64_t num_documents = 0;
  std::int64_t num_errors = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::vector<std::string> texts = {write_piper(random_piper_input(random)).value_or(""),
                                            write_pipedream_graph(random_pipedream_profile(random)),
                                            write_pipeline_answer(random_pipeline_answer(random))};
    for (const std::string& text : texts) {
      const std::string damaged = mutate(text, random);
      expect_placed(read_piper(damaged, "f.json"), num_errors);
      const auto profile = read_pipedream_graph(damaged, "graph.txt");
      if (!profile) {
        ++num_errors;
        EXPECT_TRUE(profile.error().place.starts_with("graph.txt"))
            << format_error(profile.error());
        EXPECT_FALSE(profile.error().message.empty());
      }
      expect_placed(read_pipeline_answer(damaged, "f.json"), num_errors);
      ++num_documents;
    }
  }
  EXPECT_GT(num_errors, 2 * num_documents);
}

}  // namespace
}  // namespace plimsoll::io
