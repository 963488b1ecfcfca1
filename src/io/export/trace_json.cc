#include "plimsoll/io/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "io/json/json_document.h"

namespace plimsoll::io {
namespace {

using study::StepTimeline;

constexpr double kUsPerMs = 1000;

JsonValue text(std::string_view value) { return {std::string(value)}; }
JsonValue number(std::int64_t value) { return {value}; }

// Perfetto keeps process 0 for the kernel.
std::int64_t process_id(int process) { return std::int64_t{process} + 1; }

JsonValue name_event(std::string_view kind, std::int64_t process, std::optional<int> thread,
                     const std::string& name) {
  JsonValue::Object event{{"name", text(kind)}, {"ph", text("M")}, {"pid", number(process)}};
  if (thread) event.push_back({"tid", number(*thread)});
  event.push_back({"args", {JsonValue::Object{{"name", text(name)}}}});
  return {std::move(event)};
}

JsonValue sort_event(std::string_view kind, std::int64_t process, std::optional<int> thread,
                     std::int64_t index) {
  JsonValue::Object event{{"name", text(kind)}, {"ph", text("M")}, {"pid", number(process)}};
  if (thread) event.push_back({"tid", number(*thread)});
  event.push_back({"args", {JsonValue::Object{{"sort_index", number(index)}}}});
  return {std::move(event)};
}

// The timeline's events, which begin at `from_us`.
void add_predicted(const StepTimeline& timeline, double from_us, std::string_view prefix,
                   JsonValue::Array& events) {
  for (std::size_t p = 0; p < timeline.processes.size(); ++p) {
    const study::TimelineProcess& process = timeline.processes[p];
    const std::int64_t id = process_id(static_cast<int>(p));
    events.push_back(name_event("process_name", id, {}, std::string(prefix) + process.name));
    events.push_back(sort_event("process_sort_index", id, {}, static_cast<std::int64_t>(p)));
    for (std::size_t t = 0; t < process.threads.size(); ++t) {
      const int thread = static_cast<int>(t);
      events.push_back(name_event("thread_name", id, thread, process.threads[t]));
      events.push_back(sort_event("thread_sort_index", id, thread, thread));
    }
  }
  for (const study::TimelineEvent& event : timeline.events) {
    events.push_back({JsonValue::Object{{"name", text(event.name)},
                                        {"cat", text("predicted")},
                                        {"ph", text("X")},
                                        {"pid", number(process_id(event.process))},
                                        {"tid", number(event.thread)},
                                        {"ts", {from_us + event.start_ms * kUsPerMs}},
                                        {"dur", {event.duration_ms * kUsPerMs}}}});
  }
  for (const study::TimelineMemory& memory : timeline.memory) {
    JsonValue::Object bytes;
    for (const auto& [cause, amount] : memory.bytes) bytes.push_back({cause, number(amount)});
    events.push_back({JsonValue::Object{{"name", text(memory.tier + " (bytes)")},
                                        {"cat", text("predicted")},
                                        {"ph", text("C")},
                                        {"pid", number(process_id(memory.process))},
                                        {"ts", {from_us + memory.at_ms * kUsPerMs}},
                                        {"args", {std::move(bytes)}}}});
  }
}

std::string write_document(JsonValue::Array events) {
  JsonValue::Object document;
  document.push_back({"schema", text("plimsoll.trace/1")});
  document.push_back({"displayTimeUnit", text("ms")});
  document.push_back({"traceEvents", {std::move(events)}});
  return print_json({std::move(document)});
}

// ---------------------------------------------------------------- recorded traces

std::optional<double> number_in(const JsonValue& event, std::string_view key) {
  const JsonValue* value = event.find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = value->as<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* real = value->as<double>()) return *real;
  return std::nullopt;
}

std::string_view text_in(const JsonValue& event, std::string_view key) {
  const JsonValue* value = event.find(key);
  const auto* found = value == nullptr ? nullptr : value->as<std::string>();
  return found == nullptr ? std::string_view() : std::string_view(*found);
}

JsonValue* find_member(JsonValue& event, std::string_view key) {
  auto* object = std::get_if<JsonValue::Object>(&event.data);
  if (object == nullptr) return nullptr;
  const auto found = std::find_if(object->begin(), object->end(),
                                  [key](const JsonMember& member) { return member.key == key; });
  return found == object->end() ? nullptr : &found->value;
}

// An object with "traceEvents", or the list itself.
Result<JsonValue::Array> read_events(std::string_view recorded, std::string_view file) {
  PLIMSOLL_ASSIGN(JsonValue root, parse_json(recorded, file));
  JsonValue* events = &root;
  if (root.as<JsonValue::Object>() != nullptr) events = find_member(root, "traceEvents");
  auto* list = events == nullptr ? nullptr : std::get_if<JsonValue::Array>(&events->data);
  if (list != nullptr) return std::move(*list);
  return fail(ErrorCode::kSchema, document_place(file, ""), "there is not a list 'traceEvents'",
              "give what torch.profiler's export_chrome_trace wrote");
}

constexpr std::string_view kStepName = "ProfilerStep#";

struct Span {
  std::string name;
  double from_us = 0, us = 0;
};

// "ProfilerStep#5" is 5; -1 for other names.
int step_number(std::string_view name) {
  if (!name.starts_with(kStepName)) return -1;
  name.remove_prefix(kStepName.size());
  int number = -1;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && stop == name.data() + name.size() ? number : -1;
}

// The step asked for, else the last one; of a device that repeats the host's event the first
// counts.
Result<Span> find_step(const JsonValue::Array& events, std::string_view file,
                       std::optional<int> step) {
  int last = -1;
  Span found;
  Span whole{"the trace", std::numeric_limits<double>::infinity(), 0};
  double end = 0;
  for (const JsonValue& event : events) {
    const auto from = number_in(event, "ts");
    const auto us = number_in(event, "dur");
    if (!from || !us || text_in(event, "ph") != "X") continue;
    whole.from_us = std::min(whole.from_us, *from);
    end = std::max(end, *from + *us);
    const std::string_view name = text_in(event, "name");
    const int is = step_number(name);
    if (is < 0 || (step && is != *step)) continue;
    if (is > last || (is == last && *from < found.from_us)) {
      last = is;
      found = {std::string(name), *from, *us};
    }
  }
  if (last >= 0) return found;
  if (step) {
    return fail(ErrorCode::kNotFound, std::string(file),
                fmt::format("the trace has no {}{}", kStepName, *step),
                "name a step that it has, or leave --step out");
  }
  if (!std::isfinite(whole.from_us)) {
    return fail(ErrorCode::kSchema, document_place(file, "/traceEvents"),
                "no event has a beginning and a duration",
                "give what torch.profiler's export_chrome_trace wrote");
  }
  whole.us = end - whole.from_us;
  return whole;
}

// The earliest moment that an event names: nothing lies before 0.
double first_moment(const JsonValue::Array& events) {
  double first = std::numeric_limits<double>::infinity();
  for (const JsonValue& event : events) {
    const auto from = number_in(event, "ts");
    if (from && text_in(event, "ph") != "M") first = std::min(first, *from);
  }
  return std::isfinite(first) ? first : 0;
}

// Processes get numbers behind ours, and their names say that they are recorded.
class Renumbering {
 public:
  explicit Renumbering(std::int64_t first) : next_(first) {}

  std::int64_t number_of(const JsonValue& process) {
    const auto [entry, is_new] = numbers_.try_emplace(print_compact(process), next_);
    if (is_new) ++next_;
    return entry->second;
  }
  void set_named(std::int64_t number) { named_.insert(number); }
  // Names for processes that have none.
  void add_names(JsonValue::Array& events) const {
    for (const auto& [process, id] : numbers_) {
      if (!named_.contains(id)) {
        events.push_back(name_event("process_name", id, {}, "recorded: " + process));
      }
    }
  }

 private:
  std::int64_t next_;
  std::map<std::string, std::int64_t> numbers_;
  std::set<std::int64_t> named_;
};

}  // namespace

std::string write_trace(const StepTimeline& timeline) {
  JsonValue::Array events;
  add_predicted(timeline, 0, "", events);
  return write_document(std::move(events));
}

Result<TraceBeside> write_trace_beside(const StepTimeline& timeline, std::string_view recorded,
                                       std::string_view file, std::optional<int> step) {
  PLIMSOLL_ASSIGN(JsonValue::Array recorded_events, read_events(recorded, file));
  PLIMSOLL_ASSIGN(const Span span, find_step(recorded_events, file, step));
  const double first = first_moment(recorded_events);
  JsonValue::Array events;
  add_predicted(timeline, span.from_us - first, "predicted: ", events);
  Renumbering processes(process_id(static_cast<int>(timeline.processes.size())));
  for (JsonValue& event : recorded_events) {
    if (event.as<JsonValue::Object>() == nullptr) continue;
    if (JsonValue* from = find_member(event, "ts"); from != nullptr && number_in(event, "ts")) {
      // Metadata carry a moment, too, which may be 0.
      *from = {std::max(0.0, *number_in(event, "ts") - first)};
    }
    if (JsonValue* process = find_member(event, "pid"); process != nullptr) {
      const std::int64_t id = processes.number_of(*process);
      *process = number(id);
      if (text_in(event, "ph") == "M" && text_in(event, "name") == "process_name") {
        if (JsonValue* arguments = find_member(event, "args"); arguments != nullptr) {
          if (JsonValue* name = find_member(*arguments, "name"); name != nullptr) {
            *name = text("recorded: " + std::string(text_in(*arguments, "name")));
            processes.set_named(id);
          }
        }
      }
    }
    events.push_back(std::move(event));
  }
  processes.add_names(events);
  return TraceBeside{write_document(std::move(events)), span.name, span.us / kUsPerMs};
}

}  // namespace plimsoll::io
