// Whole commands on one file that is fuzzed: what is read is also planned with little effort, and
// what was planned is judged. No input is our fault (exit code 70), and `check` finds no violation
// in a plan that we made of the same input.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/app.h"
#include "plimsoll/io/files.h"
#include "targets.h"

namespace plimsoll::fuzz {
namespace {

constexpr int kOurFault = 70;
constexpr int kViolations = 5;

// A folder of this process's own, removed when it ends.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("plimsoll-fuzz-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

struct Ran {
  int code = 0;
  std::string errors;  // what it said on standard error
};

Ran run(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"plimsoll"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  app::Host host;
  const int code = app::run(static_cast<int>(argv.size()), argv.data(), host);
  require(code != kOurFault);
  return {code, std::move(host.errors)};
}

using Arguments = std::vector<std::string>;

// Plans "@" of the arguments, the fuzzed file, and judges the plan where there is one.
void plan_and_check(std::string_view input, const char* name, Arguments plan, Arguments check) {
  static const Folder folder;
  const std::string in = folder.file(name);
  const std::string out = folder.file("out.json");
  require(io::write_text_file(in, input).has_value());
  ::unlink(out.c_str());
  for (Arguments* arguments : {&plan, &check}) {
    for (std::string& argument : *arguments) {
      if (argument == "@") argument = in;
      if (argument == "@out") argument = out;
    }
  }
  const Ran planned = run(plan);
  if (check.empty() || ::access(out.c_str(), R_OK) != 0) return;
  // As the reference, the reservation looks at rank 0 alone; of the others the planner warns.
  const bool is_warned = planned.errors.find("more memory than the rank has") != std::string::npos;
  require(run(check).code != kViolations || is_warned);
}

void shard(std::string_view input) {
  plan_and_check(input, "model.json",
                 {"shard", "@", "--on", "4x1GiB", "--effort", "500", "--json", "-o", "@out"},
                 {"check", "@", "@out", "--on", "4x1GiB"});
}

void shard_like_torchrec(std::string_view input) {
  plan_and_check(input, "model.json",
                 {"shard", "@", "--on", "4x1GiB", "--search", "torchrec", "--effort", "50",
                  "--stats", "-o", "@out"},
                 {"check", "@", "@out", "--on", "4x1GiB"});
}

void shard_on_topology(std::string_view input) {
  plan_and_check(
      input, "topology.json",
      {"shard", "movielens-two-tower", "--on", "@", "--effort", "500", "--json", "-o", "@out"},
      {"check", "movielens-two-tower", "@out", "--on", "@"});
}

void shard_options(std::string_view input) {
  plan_and_check(input, "options.json", {"shard", "@", "--effort", "500", "--json", "-o", "@out"},
                 {"check", "@", "@out"});
}

void check_plan(std::string_view input) {
  plan_and_check(input, "plan.json",
                 {"check", "movielens-two-tower", "@", "--on", "4x40GiB", "--json"}, {});
}

void experts(std::string_view input) {
  plan_and_check(input, "experts.json", {"shard", "@", "--effort", "100", "--json", "-o", "@out"},
                 {"check", "@", "@out"});
}

void replan(std::string_view input) {
  plan_and_check(input, "plan.json",
                 {"replan", "movielens-two-tower", "@", "--on", "4x40GiB", "--effort", "500",
                  "--max-moved", "50%", "-o", "@out"},
                 {"check", "movielens-two-tower", "@out", "--on", "4x40GiB"});
}

void checkpoint(std::string_view input) {
  plan_and_check(input, "stats.json",
                 {"checkpoint", "@", "--budget", "80%", "--json", "-o", "@out"},
                 {"check", "@", "@out"});
}

void checkpoint_table(std::string_view input) {
  plan_and_check(input, "table.json", {"checkpoint", "@", "--budget", "50%", "--json"}, {});
}

void partition(std::string_view input) {
  plan_and_check(input, "graph.json", {"partition", "@", "--effort", "500", "--json", "-o", "@out"},
                 {"check", "@", "@out"});
}

void partition_on_devices(std::string_view input) {
  plan_and_check(input, "graph.json",
                 {"partition", "@", "--on", "2x1GiB", "--effort", "500", "--json", "-o", "@out"},
                 {});
}

constexpr auto kTargets = std::to_array<Target>({
    {"command_check_plan", check_plan, "plan"},
    {"command_check_replan", check_plan, "replan"},
    {"command_checkpoint", checkpoint, "module_stats"},
    {"command_checkpoint_table", checkpoint_table, "sac_stats"},
    {"command_experts", experts, "experts"},
    {"command_partition", partition, "cost_graph"},
    {"command_partition_on_devices", partition_on_devices, "operator_graph"},
    {"command_replan", replan, "plan"},
    {"command_shard", shard, "model"},
    {"command_shard_like_torchrec", shard_like_torchrec, "model"},
    {"command_shard_on_topology", shard_on_topology, "topology"},
    {"command_shard_options", shard_options, "torchrec_options"},
});

}  // namespace

std::span<const Target> command_targets() { return kTargets; }

}  // namespace plimsoll::fuzz
