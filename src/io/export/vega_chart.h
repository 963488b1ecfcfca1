// Charts as Vega-Lite specifications with their data, which the page's script draws.
//
// The specifications are in data/page/charts.json; here they get their data. Every mark says in
// words what it shows. Beyond kMostBars places a stacked chart has one area a series instead of a
// bar a place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/study/step_timeline.h"

namespace plimsoll::io {

inline constexpr std::size_t kMostBars = 256;
inline constexpr std::size_t kMostBoxes = 6000;  // of a timeline
inline constexpr std::size_t kMostRows = 100;    // as above

enum class ChartUnit { kMs, kBytes };

struct StackedChart {
  std::string title;  // what the figure shows, in a few words
  ChartUnit unit = ChartUnit::kMs;
  std::string place_word;                                           // "rank"
  std::vector<std::string> places;                                  // along the axis: "rank 3"
  std::vector<std::pair<std::string, std::vector<double>>> series;  // [places] each, >= 0
  std::vector<double> caps;  // [places] a line across; empty: none
  std::string cap_name;
};
// A figure for the page; empty where nothing is above 0.
std::string draw_stacked(const StackedChart& chart);

struct CurvePoint {
  double x = 0, y = 0;
  std::string name;  // empty: x and y say it
};
struct CurveChart {
  std::string title, x_name;
  ChartUnit x_unit = ChartUnit::kBytes, y_unit = ChartUnit::kMs;
  bool has_x_numbers = true;  // else x is an order
  // Straight from point to point, ascending by x.
  std::vector<std::pair<std::string, std::vector<CurvePoint>>> curves;
  std::optional<std::pair<double, double>> marked;
  std::string marked_name;
  std::optional<double> limit;  // a line at that y
  std::string limit_name;
};
// Empty without two points.
std::string draw_curves(const CurveChart& chart);

struct ScatterPoint {
  double x = 0, y = 0;
  std::string name;  // what it shows, in words
};
struct ScatterChart {
  std::string title, x_name, y_name;  // of numbers
  std::vector<std::pair<std::string, std::vector<ScatterPoint>>> groups;
  std::vector<std::pair<double, double>> line;  // through some of the points, ascending by x
  std::string line_name;
};
// Empty without points.
std::string draw_scatter(const ScatterChart& chart);

// Which places hold which parts; every run of places is {first, count}.
struct MatrixRow {
  std::string name, group;  // rows of one group have one colour
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
};
struct MatrixChart {
  std::string title, place_word;
  std::int64_t num_places = 0;
  std::vector<MatrixRow> rows;
};
// Empty without rows or places, or with more than kMostRows rows.
std::string draw_matrix(const MatrixChart& chart);

// Empty where it has no events, or more than kMostBoxes or kMostRows.
std::string draw_timeline(const study::StepTimeline& timeline);

}  // namespace plimsoll::io
