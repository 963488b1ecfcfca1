#include "io/import/pipedream_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/check.h"

namespace plimsoll::io {

using partition::PipeDreamNode;
using partition::PipeDreamProfile;

namespace {

constexpr std::string_view kSeparator = " -- ";

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator)) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

class GraphReader {
 public:
  GraphReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<PipeDreamProfile> read() {
    while (!text_.empty()) {
      ++line_;
      const std::size_t end = text_.find('\n');
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (!line.empty() && line.front() == '\t') {
        PLIMSOLL_RETURN_IF_ERROR(read_edge(line.substr(1)));
      } else {
        PLIMSOLL_RETURN_IF_ERROR(read_node(line));
      }
    }
    if (auto valid = partition::validate(profile_); !valid) {
      Error error = valid.error();
      error.message = error.place + ": " + error.message;
      error.place = std::string(file_);
      return tl::unexpected<Error>(std::move(error));
    }
    return std::move(profile_);
  }

 private:
  tl::unexpected<Error> fail_here(ErrorCode code, std::string message, std::string remedy) const {
    return fail(code, std::string(file_) + ":" + std::to_string(line_), std::move(message),
                std::move(remedy));
  }

  Result<void> read_node(std::string_view line) {
    const auto parts = split(line, kSeparator);
    if (parts.size() < 3 || parts.size() > 4 || parts[0].empty()) {
      return fail_here(ErrorCode::kSyntax, "neither a node nor an edge",
                       "write 'ID -- DESCRIPTION -- COSTS' or '<tab>ID -- ID'");
    }
    PipeDreamNode node;
    node.id = parts[0];
    node.description = parts[1];
    const auto costs = split(parts[2], ", ");
    if (costs.size() != 4) {
      return fail_here(ErrorCode::kSyntax, "not four costs",
                       "write forward_compute_time, backward_compute_time, activation_size and "
                       "parameter_size");
    }
    PLIMSOLL_ASSIGN(node.forward_ms, read_time(costs[0], "forward_compute_time="));
    PLIMSOLL_ASSIGN(node.backward_ms, read_time(costs[1], "backward_compute_time="));
    PLIMSOLL_ASSIGN(node.activations, read_activations(costs[2]));
    PLIMSOLL_ASSIGN(const std::string_view parameters, value_of(costs[3], "parameter_size="));
    PLIMSOLL_ASSIGN(node.parameters, read_bytes(parameters));
    if (parts.size() == 4) {
      PLIMSOLL_ASSIGN(const std::string_view stage, value_of(parts[3], "stage_id="));
      int id = 0;
      const auto [end, code] = std::from_chars(stage.data(), stage.data() + stage.size(), id);
      if (code != std::errc{} || end != stage.data() + stage.size() || id < 0) {
        return fail_here(ErrorCode::kValue, fmt::format("'{}' is not a stage", std::string(stage)),
                         "give a whole number of at least 0");
      }
      node.stage = id;
    }
    if (!index_.emplace(node.id, static_cast<int>(profile_.nodes.size())).second) {
      return fail_here(ErrorCode::kConflict, "the id '" + node.id + "' occurs twice",
                       "give every node its own id");
    }
    profile_.nodes.push_back(std::move(node));
    return {};
  }

  Result<void> read_edge(std::string_view line) {
    const auto parts = split(line, kSeparator);
    if (parts.size() != 2) {
      return fail_here(ErrorCode::kSyntax, "an edge does not have two ends",
                       "write '<tab>ID -- ID'");
    }
    std::array<int, 2> ends{};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto found = index_.find(std::string(parts[i]));
      if (found == index_.end()) {
        return fail_here(ErrorCode::kValue,
                         fmt::format("there is no node '{}' above", std::string(parts[i])),
                         "give the id of a node, edges after nodes");
      }
      ends[i] = found->second;
    }
    profile_.edges.emplace_back(ends[0], ends[1]);
    return {};
  }

  Result<std::string_view> value_of(std::string_view text, std::string_view key) const {
    if (text.substr(0, key.size()) != key) {
      return fail_here(ErrorCode::kSyntax, fmt::format("'{}' is missing", std::string(key)),
                       "give the costs in their order");
    }
    return text.substr(key.size());
  }

  Result<double> read_number(std::string_view text) const {
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code == std::errc::result_out_of_range) {
      return fail_here(ErrorCode::kOverflow, fmt::format("'{}' does not fit", std::string(text)),
                       "give a smaller number");
    }
    if (code != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
      return fail_here(ErrorCode::kSyntax, fmt::format("'{}' is not a number", std::string(text)),
                       "give a finite number");
    }
    if (value < 0) {
      return fail_here(ErrorCode::kValue, fmt::format("{} is negative", value), "give at least 0");
    }
    return value;
  }

  Result<double> read_time(std::string_view text, std::string_view key) const {
    PLIMSOLL_ASSIGN(const std::string_view value, value_of(text, key));
    return read_number(value);
  }

  Result<Bytes> read_bytes(std::string_view text) const {
    PLIMSOLL_ASSIGN(const double value, read_number(text));
    constexpr double kTooBig = 9223372036854775808.0;
    if (value >= kTooBig) {
      return fail_here(ErrorCode::kOverflow, fmt::format("{} bytes do not fit", value),
                       fmt::format("give at most {}", INT64_MAX));
    }
    if (value != std::floor(value)) {
      return fail_here(ErrorCode::kValue, fmt::format("{} is not a number of bytes", value),
                       "give a whole number");
    }
    return static_cast<Bytes>(value);
  }

  Result<std::vector<Bytes>> read_activations(std::string_view text) const {
    PLIMSOLL_ASSIGN(std::string_view value, value_of(text, "activation_size="));
    std::vector<Bytes> parts;
    if (value.empty() || value.front() != '[') {
      PLIMSOLL_ASSIGN(const Bytes bytes, read_bytes(value));
      parts.push_back(bytes);
      return parts;
    }
    if (value.back() != ']') {
      return fail_here(ErrorCode::kSyntax, "a list that is not closed", "write [A; B]");
    }
    value.remove_prefix(1);
    value.remove_suffix(1);
    for (const std::string_view part : split(value, "; ")) {
      PLIMSOLL_ASSIGN(const Bytes bytes, read_bytes(part));
      parts.push_back(bytes);
    }
    return parts;
  }

  std::string_view text_;
  std::string_view file_;
  int line_ = 0;
  PipeDreamProfile profile_;
  std::unordered_map<std::string, int> index_;
};

std::string time_text(double value) {
  std::string text = fmt::format("{:.3f}", value);
  double back = 0;
  std::from_chars(text.data(), text.data() + text.size(), back);
  return back == value ? text : fmt::format("{}", value);
}

std::string activations_text(const std::vector<Bytes>& parts) {
  if (parts.size() == 1) return fmt::format("{}.0", parts.front());
  std::string text;
  for (const Bytes bytes : parts) text += fmt::format("{}{}.0", text.empty() ? "[" : "; ", bytes);
  return text + "]";
}

bool is_writable(const PipeDreamNode& node) {
  const auto is_plain = [](const std::string& text) {
    return text.find_first_of("\r\n") == std::string::npos &&
           text.find(" -- ") == std::string::npos;
  };
  return is_plain(node.id) && is_plain(node.description);
}

}  // namespace

Result<PipeDreamProfile> read_pipedream_graph(std::string_view text, std::string_view file) {
  return GraphReader(text, file).read();
}

std::string write_pipedream_graph(const PipeDreamProfile& profile) {
  PLIMSOLL_DCHECK(validate(profile).has_value(), "the profile is valid");
  PLIMSOLL_CHECK(std::all_of(profile.nodes.begin(), profile.nodes.end(), is_writable),
                 "ids and descriptions have no line ends and no separator");
  std::string text;
  for (const PipeDreamNode& node : profile.nodes) {
    text += fmt::format(
        "{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size={}, "
        "parameter_size={}.000",
        node.id, node.description, time_text(node.forward_ms), time_text(node.backward_ms),
        activations_text(node.activations), node.parameters);
    if (node.stage) text += fmt::format(" -- stage_id={}", *node.stage);
    text += '\n';
  }
  for (const auto& [from, to] : profile.edges) {
    text += '\t' + profile.nodes[from].id + " -- " + profile.nodes[to].id + '\n';
  }
  return text;
}

}  // namespace plimsoll::io
