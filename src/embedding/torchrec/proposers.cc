// The reference's simple proposers: greedy, uniform and grid search. Source:
// docs/mathematics/torchrec-planner.md#proposers.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "core/suggest.h"
#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {
namespace {

using Lists = std::vector<std::vector<std::int32_t>>;

// Starts every table at its best option and moves, one table at a time, the one whose current
// option takes most memory to its next option.
class Greedy : public Proposer {
 public:
  explicit Greedy(const GreedyOptions& options) : config_(options) {}

  std::string_view name() const override {
    return config_.score == Score::kDepth ? "greedy_depth" : "greedy_sum";
  }
  bool needs_rating() const override { return config_.threshold.has_value(); }

  // The best rating and its counter survive a second load, as in the reference.
  Result<void> load(const SearchSpace& space) override {
    options_ = space.options;
    lists_ = options_by_score(*space.options, config_.score);
    next_.assign(lists_.size(), 0);
    heaviest_ = {};
    proposal_.clear();
    for (std::size_t t = 0; t < lists_.size(); ++t) {
      proposal_.push_back(lists_[t].front());
      push(t);
    }
    is_finished_ = false;
    return {};
  }

  const Proposal* propose() override { return is_finished_ ? nullptr : &proposal_; }

  Result<void> feedback(const Feedback& feedback) override {
    if (config_.threshold && feedback.perf_rating && *feedback.perf_rating != 0) {
      ++num_inferior_;
      if (*feedback.perf_rating < best_rating_) {
        best_rating_ = *feedback.perf_rating;
        num_inferior_ = 0;
      }
      if (num_inferior_ > *config_.threshold) {
        is_finished_ = true;
        return {};
      }
    }
    if (heaviest_.empty()) {
      is_finished_ = true;
      return {};
    }
    const std::size_t table = heaviest_.top().table;
    heaviest_.pop();
    proposal_[table] = lists_[table][++next_[table]];
    push(table);
    return {};
  }

 private:
  struct Candidate {
    std::array<Bytes, 4> memory;  // largest shard and sum in HBM, then in DDR
    std::size_t table;
    // The heaviest first; of equals the first table.
    bool operator<(const Candidate& other) const {
      return memory != other.memory ? memory < other.memory : table > other.table;
    }
  };

  // Tables without a next option, or whose option takes no memory at all, are never advanced.
  void push(std::size_t table) {
    if (next_[table] + 1 >= lists_[table].size()) return;
    const ShardRuns shards = options_->shards(proposal_[table]);
    const Storage largest = shards.max_storage();
    const Storage total = shards.total_storage();
    const std::array<Bytes, 4> memory{largest.hbm, total.hbm, largest.ddr, total.ddr};
    if (memory > std::array<Bytes, 4>{}) heaviest_.push({memory, table});
  }

  GreedyOptions config_;
  const OptionSet* options_ = nullptr;
  Lists lists_;
  std::vector<std::size_t> next_;  // [tables] index of the current option in its list
  std::priority_queue<Candidate> heaviest_;
  Proposal proposal_;
  bool is_finished_ = true;
  double best_rating_ = std::numeric_limits<double>::infinity();
  std::int64_t num_inferior_ = 0;
};

// One proposal per sharding type that every table offers, each table at its best option of that
// type.
class Uniform : public Proposer {
 public:
  explicit Uniform(Score score) : score_(score) {}

  std::string_view name() const override { return "uniform"; }

  Result<void> load(const SearchSpace& space) override {
    const OptionSet& options = *space.options;
    proposals_.clear();
    next_ = 0;
    std::vector<ShardingType> types;  // first-seen order
    for (const Option& option : options.options) {
      if (std::find(types.begin(), types.end(), option.sharding_type) == types.end()) {
        types.push_back(option.sharding_type);
      }
    }
    for (const ShardingType type : types) {
      // Tables in the order in which their first option of the type is seen, which is search-space
      // order.
      Proposal proposal;
      for (const TableOptions& table : options.tables) {
        std::int32_t best = -1;
        double best_score = 0;
        for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
          if (options.options[static_cast<std::size_t>(o)].sharding_type != type) continue;
          const double value = score(options, o, score_);
          if (best < 0 || value < best_score) {
            best = o;
            best_score = value;
          }
        }
        if (best >= 0) proposal.push_back(best);
      }
      if (proposal.size() == options.tables.size()) proposals_.push_back(std::move(proposal));
    }
    return {};
  }

  const Proposal* propose() override {
    return next_ < proposals_.size() ? &proposals_[next_] : nullptr;
  }

  Result<void> feedback(const Feedback&) override {
    ++next_;
    return {};
  }

 private:
  Score score_;
  std::vector<Proposal> proposals_;
  std::size_t next_ = 0;
};

// Every combination, the last table varying fastest; none at all beyond max_proposals.
class GridSearch : public Proposer {
 public:
  GridSearch(std::int64_t max_proposals, Score score)
      : max_proposals_(max_proposals), score_(score) {}

  std::string_view name() const override { return "grid_search"; }

  Result<void> load(const SearchSpace& space) override {
    lists_ = options_by_score(*space.options, score_);
    Int128 count = 1;
    for (const auto& list : lists_) {
      count *= static_cast<Int128>(list.size());
      if (count > max_proposals_) break;
    }
    is_finished_ = count > max_proposals_ || lists_.empty();
    digits_.assign(lists_.size(), 0);
    proposal_.clear();
    for (const auto& list : lists_) proposal_.push_back(list.front());
    return {};
  }

  const Proposal* propose() override { return is_finished_ ? nullptr : &proposal_; }

  Result<void> feedback(const Feedback&) override {
    for (std::size_t t = lists_.size(); t-- > 0;) {
      if (++digits_[t] < lists_[t].size()) {
        proposal_[t] = lists_[t][digits_[t]];
        return {};
      }
      digits_[t] = 0;
      proposal_[t] = lists_[t].front();
    }
    is_finished_ = true;
    return {};
  }

 private:
  std::int64_t max_proposals_;
  Score score_;
  Lists lists_;
  std::vector<std::size_t> digits_;
  Proposal proposal_;
  bool is_finished_ = true;
};

// What a name may set: "greedy_depth:50".
struct Setting {
  EasyRecDynamicProgrammingOptions easyrec;
  std::optional<std::int64_t> limit;
};

struct NamedProposer {
  std::string name;
  std::string limit;  // what ":N" means for it; empty: nothing
  std::unique_ptr<Proposer> (*make)(const Setting& setting);
};

template <EasyRecForm form>
std::unique_ptr<Proposer> make_easyrec(const Setting& setting) {
  EasyRecDynamicProgrammingOptions easyrec = setting.easyrec;
  easyrec.form = form;
  if (setting.limit) easyrec.hbm_bins_per_device = *setting.limit;
  return make_easyrec_dynamic_programming_proposer(easyrec);
}

template <Score by>
std::unique_ptr<Proposer> make_greedy(const Setting& setting) {
  return make_greedy_proposer({by, setting.limit});
}

const std::array<NamedProposer, 9>& named_proposers() {
  static const std::array<NamedProposer, 9> proposers{{
      {"grid_search", "proposals",
       [](const Setting& setting) {
         return setting.limit ? make_grid_search_proposer(*setting.limit)
                              : make_grid_search_proposer();
       }},
      {"greedy_depth", "threshold", make_greedy<Score::kDepth>},
      {"greedy_sum", "threshold", make_greedy<Score::kSum>},
      {"uniform", "", [](const Setting&) { return make_uniform_proposer(); }},
      {"dynamic_programming", "bins",
       [](const Setting& setting) {
         return setting.limit ? make_dynamic_programming_proposer(*setting.limit)
                              : make_dynamic_programming_proposer();
       }},
      {"easyrec_dynamic_programming_v1", "bins", make_easyrec<EasyRecForm::kV1>},
      {"easyrec_dynamic_programming_v2", "bins", make_easyrec<EasyRecForm::kV2>},
      {"easyrec_dynamic_programming_v3", "bins", make_easyrec<EasyRecForm::kV3>},
      {"embedding_offload_scaleup", "",
       [](const Setting&) { return make_embedding_offload_scaleup_proposer(); }},
  }};
  return proposers;
}

// What the planners of TorchRec and of TorchEasyRec's revisions propose by, the newest first.
constexpr std::pair<std::string_view, std::string_view> kProposerLists[] = {
    {"default", "grid_search+greedy_depth+greedy_sum+uniform"},
    {"easyrec", "easyrec_dynamic_programming_v3+uniform"},
    {"easyrec_v2", "easyrec_dynamic_programming_v2+uniform"},
    {"easyrec_v1", "easyrec_dynamic_programming_v1+uniform"},
};

// The N of "name:N"; nothing without one. Error kValue.
Result<std::optional<std::int64_t>> parse_limit(std::string_view text,
                                                const NamedProposer& proposer) {
  if (text.empty()) return std::nullopt;
  const std::string_view digits = text.substr(1);
  std::int64_t limit = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), limit);
  if (proposer.limit.empty() || error != std::errc() || end != digits.data() + digits.size() ||
      limit < 1) {
    return fail(ErrorCode::kValue, "proposer",
                fmt::format("'{}{}' is not a setting of this proposer", proposer.name, text),
                proposer.limit.empty() ? fmt::format("write {} alone", proposer.name)
                                       : fmt::format("write {}:N with {} N of at least 1",
                                                     proposer.name, proposer.limit));
  }
  return limit;
}

}  // namespace

double score(const OptionSet& options, std::int32_t option, Score by) {
  const ShardRuns shards = options.shards(option);
  return by == Score::kDepth ? shards.max_perf() : shards.total_perf();
}

Lists options_by_score(const OptionSet& options, Score by) {
  std::vector<double> scores(options.options.size());
  for (std::size_t o = 0; o < scores.size(); ++o) {
    scores[o] = score(options, static_cast<std::int32_t>(o), by);
  }
  Lists lists;
  for (const TableOptions& table : options.tables) {
    std::vector<std::int32_t> list(static_cast<std::size_t>(table.num_options));
    std::iota(list.begin(), list.end(), table.first_option);
    std::stable_sort(list.begin(), list.end(), [&scores](std::int32_t a, std::int32_t b) {
      return scores[static_cast<std::size_t>(a)] < scores[static_cast<std::size_t>(b)];
    });
    lists.push_back(std::move(list));
  }
  return lists;
}

std::unique_ptr<Proposer> make_greedy_proposer(const GreedyOptions& options) {
  return std::make_unique<Greedy>(options);
}

std::unique_ptr<Proposer> make_uniform_proposer(Score score) {
  return std::make_unique<Uniform>(score);
}

std::unique_ptr<Proposer> make_grid_search_proposer(std::int64_t max_proposals, Score score) {
  return std::make_unique<GridSearch>(max_proposals, score);
}

std::span<const std::string> proposer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, proposers] : kProposerLists) all.emplace_back(name);
    for (const NamedProposer& proposer : named_proposers()) all.push_back(proposer.name);
    return all;
  }();
  return names;
}

Result<std::vector<std::unique_ptr<Proposer>>> make_proposers(
    std::string_view names, const EasyRecDynamicProgrammingOptions& easyrec) {
  std::vector<std::unique_ptr<Proposer>> proposers;
  for (const auto& [name, list] : kProposerLists) {
    if (names == name) names = list;
  }
  while (true) {
    const std::size_t plus = names.find('+');
    const std::string_view entry = names.substr(0, plus);
    const std::string_view name = entry.substr(0, entry.find(':'));
    const auto& known = named_proposers();
    const auto found = std::find_if(known.begin(), known.end(),
                                    [name](const NamedProposer& p) { return p.name == name; });
    if (found == known.end()) {
      return fail(ErrorCode::kNotFound, "proposer", fmt::format("no proposer '{}'", name),
                  suggest(name, proposer_names()));
    }
    PLIMSOLL_ASSIGN(const auto limit, parse_limit(entry.substr(name.size()), *found));
    proposers.push_back(found->make({easyrec, limit}));
    if (plus == std::string_view::npos) return proposers;
    names.remove_prefix(plus + 1);
  }
}

Result<std::vector<Proposal>> proposers_to_proposals_list(
    std::span<const std::unique_ptr<Proposer>> proposers, const SearchSpace& space) {
  for (const auto& proposer : proposers) PLIMSOLL_RETURN_IF_ERROR(proposer->load(space));
  std::vector<Proposal> proposals;
  std::set<Proposal> seen;
  for (const auto& proposer : proposers) {
    for (const Proposal* next = proposer->propose(); next != nullptr && !next->empty();
         next = proposer->propose()) {
      const Proposal proposal = *next;
      Feedback feedback;
      feedback.partitionable = true;
      PLIMSOLL_RETURN_IF_ERROR(proposer->feedback(feedback));
      Proposal key = proposal;
      std::sort(key.begin(), key.end());
      if (seen.insert(std::move(key)).second) proposals.push_back(proposal);
    }
  }
  return proposals;
}

}  // namespace plimsoll::embedding
