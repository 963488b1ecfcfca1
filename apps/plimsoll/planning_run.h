// How every command that plans runs: the file to be written is tried before the search begins,
// whoever is at a terminal sees progress, and document, text, warnings and remarks go where the
// flags ask.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plimsoll/common.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::app {

// What a command says when its search has ended.
struct Answered {
  std::string document;  // the whole answer as JSON
  // For people, or the plan in another form; an error where that form cannot say it, by when the
  // document is written. Not looked at where prints_document(). Warnings are printed behind it, and
  // before the details.
  Result<std::string> text;
  std::string details;
  SolveStatus status = SolveStatus::kLimit;
  StopReason stop = StopReason::kFinished;
  std::vector<Warning> warnings;
  std::vector<std::string> remarks;     // lines for people, to stderr, after the warnings
  std::size_t num_remarks_in_text = 0;  // the first remarks, which the text says already
};

// The flags that every command takes, and the --seed of commands that search.
void add_planning_globals(CLI::App& command, GlobalFlags& flags);

// --time-limit, --effort and --tolerance of a search.
void add_limit_flags(CLI::App& command, std::string& time_limit, std::int64_t& effort,
                     double& tolerance);

// Reads, searches and answers by `plan`, which calls watch_search(); prints; the exit code.
// `output` is the file of -o: empty, or "-" for standard output.
int run_planning(const GlobalFlags& flags, const std::string& output,
                 const std::function<Result<Answered>()>& plan);

// Does the document stand on standard output, and no text?
bool prints_document(const GlobalFlags& flags, const std::string& output);

// The context of the command's search (begin_search), which tells progress at a terminal.
Result<RunContext> watch_search(const std::string& time_limit, const GlobalFlags& flags);

// What a plan records of its search's limits, where they are not the defaults.
void put_limits(std::int64_t effort, double tolerance, Provenance& provenance);

// "proved infeasible: ..." or "note: ...", line by line.
std::vector<std::string> explanation_remarks(const Explanation& explanation, SolveStatus status);

}  // namespace plimsoll::app
