// plimsoll-module-stats: what torch's estimators would record of a published model, without torch.
//
//   plimsoll-module-stats llama-3-8b --hardware h100-sxm --batch 1 --sequence 8192
//
// Writes a plimsoll.module_stats/1 document to the standard output. Exit code 0; 1 on bad usage.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>

#include "checkpoint/trace/step_trace.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll_module_stats/models.h"
#include "trim.h"

namespace plimsoll::module_stats {
namespace {

constexpr std::size_t kMaxOperators = 160;  // of a table; as the recorded workloads

struct Settings {
  std::string model;
  std::string hardware = "h100-sxm";
  std::optional<double> gb_per_s, tflops;
  Bytes batch = 1;
  Bytes sequence = 4096;
  DlrmShape dlrm;
  bool all_leaves = false;
  std::string variant = std::string(checkpoint::default_variant().name);
};

checkpoint::StepProgram build(const Settings& settings, const checkpoint::Variant& variant) {
  if (settings.model == "llama-3-8b") {
    return llama(llama_3_8b(), settings.batch, settings.sequence, variant);
  }
  if (settings.model == "llama-3-70b") {
    return llama(llama_3_70b(), settings.batch, settings.sequence, variant);
  }
  if (settings.model == "gpt") return gpt({}, settings.batch, settings.sequence, variant);
  return dlrm_deep_towers(settings.dlrm, settings.batch, variant);
}

std::string description(const Settings& settings) {
  if (settings.model == "dlrm-deep-towers") {
    return fmt::format(
        "DLRM-DCNv2's dense side with {} towers of {} layers of {}, {} samples, bf16, emulated",
        settings.dlrm.towers, settings.dlrm.depth, settings.dlrm.width, settings.batch);
  }
  const char* shape = settings.model == "gpt"          ? "GPT of four layers, fp32"
                      : settings.model == "llama-3-8b" ? "Llama-3 8B, 32 layers, bf16"
                                                       : "Llama-3 70B, 80 layers, bf16";
  return fmt::format("{}, {} sequence(s) of {} tokens, emulated", shape, settings.batch,
                     settings.sequence);
}

Result<std::string> write(const Settings& settings) {
  checkpoint::OperatorRoofline roofline;
  if (settings.gb_per_s && settings.tflops) {
    roofline = {*settings.gb_per_s, *settings.tflops};
  } else {
    PLIMSOLL_ASSIGN(roofline, checkpoint::find_roofline(settings.hardware));
  }
  PLIMSOLL_ASSIGN(const checkpoint::Variant variant, checkpoint::find_variant(settings.variant));
  PLIMSOLL_ASSIGN(checkpoint::ModuleStats stats,
                  checkpoint::trace_step(build(settings, variant), roofline));
  if (!settings.all_leaves) drop_inner_leaves(stats);
  drop_long_tables(stats, kMaxOperators);
  stats.description = description(settings);
  stats.roofline = {
      .dram_gb_per_s = roofline.gb_per_s,
      .tflops = {{settings.model == "gpt" ? "float32" : "bfloat16", roofline.tflops}}};
  return io::write_module_stats(stats);
}

int run(int argc, char** argv) {
  CLI::App app("Module statistics of published models, for the checkpointing planner.",
               "plimsoll-module-stats");
  Settings settings;
  app.add_option("MODEL", settings.model, "The model")
      ->required()
      ->check(CLI::IsMember({"llama-3-8b", "llama-3-70b", "gpt", "dlrm-deep-towers"}));
  CLI::Option* hardware =
      app.add_option("--hardware", settings.hardware, "An accelerator or node (h100-sxm)");
  CLI::Option* bandwidth =
      app.add_option("--gb-per-s", settings.gb_per_s, "Memory bandwidth, GB/s (1e9 bytes)")
          ->check(CLI::PositiveNumber)
          ->excludes(hardware);
  CLI::Option* peak = app.add_option("--tflops", settings.tflops, "Peak, TFLOP/s, dense")
                          ->check(CLI::PositiveNumber)
                          ->excludes(hardware)
                          ->needs(bandwidth);
  bandwidth->needs(peak);
  const CLI::Range size(Bytes{1}, Bytes{1} << 24);
  app.add_option("--batch", settings.batch, "Sequences or samples of one rank (1)")->check(size);
  app.add_option("--sequence", settings.sequence, "Tokens of one sequence (4096)")->check(size);
  app.add_option("--towers", settings.dlrm.towers, "Towers of the DLRM (4)")
      ->check(CLI::Range(1, 64));
  app.add_option("--depth", settings.dlrm.depth, "Layers of one tower (8)")
      ->check(CLI::Range(1, 256));
  app.add_option("--width", settings.dlrm.width, "Width of a tower's layers (2048)")->check(size);
  app.add_option("--variant", settings.variant,
                 "Release of torch whose count of moved bytes the times follow: reference or "
                 "torch-2.13 (the default)");
  app.add_flag("--all-leaves", settings.all_leaves,
               "Keep leaves beside which there can be no unit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  const Result<std::string> text = write(settings);
  if (!text) {
    fmt::print(stderr, "plimsoll-module-stats: {}\n", format_error(text.error()));
    return 1;
  }
  fmt::print("{}", *text);
  return 0;
}

}  // namespace
}  // namespace plimsoll::module_stats

int main(int argc, char** argv) { return plimsoll::module_stats::run(argc, argv); }
